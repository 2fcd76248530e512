//go:build setnxonextend

package main

import (
	"github.com/go-redsync/redsync/v4"

	"fencepost.adapters/fencepost"
)

// moreOptions: from 4.12 on an extension may take a free key.
func moreOptions(init fencepost.Init) []redsync.Option {
	if init.Truth("set_nx_on_extend") {
		return []redsync.Option{redsync.WithSetNXOnExtend()}
	}
	return nil
}
