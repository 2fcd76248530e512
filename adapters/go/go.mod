// The root of the adapters' packages. What each is built with stands in sets/*.mod.
module fencepost.adapters

go 1.23
