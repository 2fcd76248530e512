//! The networks of one run: one for all, or one a server with Toxiproxy in each.
//!
//! Owns their making and joining. Must not know what runs in them.
use crate::cluster::ClusterError;
use crate::cluster::layout::HOST;
use crate::reaper::Reaper;
use bollard::Docker as Engine;
use bollard::errors::Error as EngineError;
use bollard::models::{EndpointSettings, NetworkConnectRequest, NetworkCreateRequest};
use futures_util::future::try_join_all;
use std::collections::HashMap;
use std::net::IpAddr;

/// Make a network, a bridge; returns its gateway.
pub(super) async fn make(
    engine: &Engine,
    name: &str,
    reaper: &Reaper,
) -> Result<Option<IpAddr>, ClusterError> {
    let refused = |e: EngineError| ClusterError::Refused {
        what: format!("make network {name}"),
        why: e.to_string(),
    };
    let request = NetworkCreateRequest {
        name: name.to_owned(),
        driver: Some("bridge".to_owned()),
        labels: Some(HashMap::from(reaper.labels())),
        ..NetworkCreateRequest::default()
    };
    engine.create_network(request).await.map_err(refused)?;
    let seen = engine.inspect_network(name, None).await.map_err(refused)?;
    let configs = seen.ipam.and_then(|i| i.config).unwrap_or_default();
    let mut gateways = configs.into_iter().filter_map(|c| c.gateway?.parse().ok());
    Ok(gateways.find(IpAddr::is_ipv4))
}

/// Make these networks side by side.
pub(super) async fn make_all(
    engine: &Engine,
    names: &[String],
    reaper: &Reaper,
) -> Result<(), ClusterError> {
    try_join_all(names.iter().map(|name| make(engine, name, reaper))).await?;
    Ok(())
}

/// Put a container into these networks, as [`HOST`]; returns its address in each.
pub(super) async fn join(
    engine: &Engine,
    container: &str,
    names: &[String],
) -> Result<Vec<IpAddr>, ClusterError> {
    let refused = |name: &str, why: String| ClusterError::Refused {
        what: format!("put Toxiproxy into network {name}"),
        why,
    };
    for name in names {
        let request = NetworkConnectRequest {
            container: container.to_owned(),
            endpoint_config: Some(EndpointSettings {
                aliases: Some(vec![HOST.to_owned()]),
                ..EndpointSettings::default()
            }),
        };
        let joined = engine.connect_network(name, request).await;
        joined.map_err(|e| refused(name, e.to_string()))?;
    }
    let seen = super::container::inspect(engine, container).await;
    let seen = seen.map_err(|e| refused("", e.to_string()))?;
    let settings = seen.network_settings.unwrap_or_default();
    let networks = settings.networks.unwrap_or_default();
    let address = |name: &String| networks.get(name)?.ip_address.as_ref()?.parse().ok();
    let found = names.iter().map(|name| {
        address(name).ok_or_else(|| refused(name, "it has no address there".to_owned()))
    });
    found.collect()
}
