//go:build !linux

package main

import (
	"net"
	"testing"
)

// freeAddress is an address of this machine on which nobody listens now.
func freeAddress(t testing.TB) string {
	t.Helper()
	free, err := net.Listen("tcp", "127.0.0.1:0")
	demand(t)(err)
	defer free.Close()
	return free.Addr().String()
}
