//go:build !setnxonextend

package main

import (
	"github.com/go-redsync/redsync/v4"

	"fencepost.adapters/fencepost"
)

// moreOptions: before 4.12 there are none.
func moreOptions(fencepost.Init) []redsync.Option { return nil }
