//! What the recipes of one run have in common: names, reaper, networks, ports.
//!
//! Owns these. Must not know when a container is started. `docker` starts what is made here.
use super::container::Recipe;
use super::image::Image;
use crate::cluster::Speaks;
use crate::reaper::Reaper;

/// What the recipes of one run have in common.
#[derive(Clone)]
pub(super) struct Kitchen {
    /// The run's network, and the beginning of all names.
    pub(super) network: String,
    /// Whose labels all of it has, and who is told before anything is made.
    pub(super) reaper: Reaper,
    pub(super) published: bool,
    /// Each server is alone in a network of its own.
    pub(super) apart: bool,
    pub(super) speaks: Speaks,
}

impl Kitchen {
    pub(super) fn recipe(
        &self,
        name: &str,
        image: &Image,
        arguments: Vec<String>,
        ports: Vec<u16>,
    ) -> Recipe {
        Recipe {
            name: format!("{}-{name}", self.network),
            image: image.name.clone(),
            arguments,
            program: image.program(),
            network: self.network.clone(),
            ip: None,
            reaper: self.reaper.clone(),
            ports,
            publish: self.published,
            shim: None,
            speaks: Speaks::Resp,
        }
    }

    pub(super) fn server(
        &self,
        name: &str,
        image: &Image,
        arguments: Vec<String>,
        ports: Vec<u16>,
    ) -> Recipe {
        let mut recipe = self.recipe(name, image, arguments, ports);
        recipe.speaks = self.speaks;
        if self.apart {
            recipe.network = self.own_network(name);
        }
        recipe
    }

    pub(super) fn own_network(&self, name: &str) -> String {
        format!("{}-net-{name}", self.network)
    }
}
