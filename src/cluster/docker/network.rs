//! The networks of one run: one for all, or one a server with Toxiproxy in each.
//!
//! Owns their making and joining. Must not know what runs in them.
use crate::cluster::ClusterError;
use crate::cluster::layout::HOST;
use crate::reaper::Reaper;
use crate::reaper::engine::answered;
use bollard::Docker as Engine;
use bollard::errors::Error as EngineError;
use bollard::models::{
    EndpointSettings, Ipam, IpamConfig, NetworkConnectRequest, NetworkCreateRequest,
};
use futures_util::future::try_join_all;
use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr};

/// The first address that a container gets, counted from the network's own; behind the gateway, so that a small range will do.
const FIRST: u32 = 2;
/// Tries to make a network anew where another run took its addresses meanwhile.
const TRIES: u32 = 10;

/// A network that was made.
#[derive(Debug, Default)]
pub(super) struct Made {
    pub(super) gateway: Option<IpAddr>,
    /// Its own address, where those of its containers are for us to choose.
    base: Option<Ipv4Addr>,
}

impl Made {
    /// The address of the `n`-th container; none: the engine's choice.
    pub(super) fn address(&self, n: usize) -> Option<IpAddr> {
        let n = u32::try_from(n).ok()?;
        let base = u32::from(self.base?);
        Some(Ipv4Addr::from(base + FIRST + n).into())
    }
}

/// Make a network, a bridge. With `fixed` the addresses of its containers are for us to choose. The engine allows that only
/// where the range was asked for, and knows best which one is free: so it is made once without, and again with that.
pub(super) async fn make(
    engine: &Engine,
    name: &str,
    fixed: bool,
    reaper: &Reaper,
) -> Result<Made, ClusterError> {
    let refused = |e: EngineError| ClusterError::Refused {
        what: format!("make network {name}"),
        why: e.to_string(),
    };
    let mut tries = 0;
    loop {
        let (gateway, range) = make_one(engine, name, None, reaper).await?;
        let (true, Some(range)) = (fixed, range) else {
            return Ok(Made {
                gateway,
                base: None,
            });
        };
        let base = range.subnet.as_deref().and_then(|s| s.split_once('/'));
        let base = base.and_then(|(address, _)| address.parse().ok());
        engine.remove_network(name).await.map_err(refused)?;
        match make_one(engine, name, Some(range), reaper).await {
            Ok((gateway, _)) => return Ok(Made { gateway, base }),
            Err(e) if tries == TRIES => return Err(e),
            Err(_) => tries += 1,
        }
    }
}

/// Make a network of this range, or of one that the engine chooses: its gateway, and its range of IPv4 addresses.
async fn make_one(
    engine: &Engine,
    name: &str,
    range: Option<IpamConfig>,
    reaper: &Reaper,
) -> Result<(Option<IpAddr>, Option<IpamConfig>), ClusterError> {
    let refused = |e: EngineError| ClusterError::Refused {
        what: format!("make network {name}"),
        why: e.to_string(),
    };
    let request = NetworkCreateRequest {
        name: name.to_owned(),
        driver: Some("bridge".to_owned()),
        labels: Some(HashMap::from(reaper.labels())),
        ipam: range.map(|range| Ipam {
            config: Some(vec![range]),
            ..Ipam::default()
        }),
        ..NetworkCreateRequest::default()
    };
    reaper.making(name);
    let made = engine.create_network(request).await;
    if answered(&made) {
        reaper.made(name);
    }
    made.map_err(refused)?;
    let seen = engine.inspect_network(name, None).await.map_err(refused)?;
    let configs = seen.ipam.and_then(|i| i.config).unwrap_or_default();
    let gateway = |c: &IpamConfig| c.gateway.as_ref()?.parse::<IpAddr>().ok();
    let range = configs
        .into_iter()
        .find(|c| gateway(c).is_some_and(|g| g.is_ipv4()));
    Ok((range.as_ref().and_then(gateway), range))
}

/// Make these networks side by side.
pub(super) async fn make_all(
    engine: &Engine,
    names: &[String],
    reaper: &Reaper,
) -> Result<(), ClusterError> {
    try_join_all(names.iter().map(|name| make(engine, name, false, reaper))).await?;
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
