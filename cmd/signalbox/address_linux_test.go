package main

import (
	"fmt"
	"net"
	"syscall"
	"testing"
)

// freeAddress is an address of this machine that is the test's own until it ends:
// a program that it starts may listen there, end, and listen there again, and
// nobody who asks for any free port is given this one meanwhile. It is held by a
// socket that is bound to it and does not listen. Beside such a one another
// socket may listen if both say that they would reuse the address, as Go's
// listeners do.
func freeAddress(t testing.TB) string {
	t.Helper()
	must := demand(t)
	socket, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	must(err)
	t.Cleanup(func() { syscall.Close(socket) })
	must(syscall.SetsockoptInt(socket, syscall.SOL_SOCKET, syscall.SO_REUSEADDR, 1),
		syscall.Bind(socket, &syscall.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}))
	bound, err := syscall.Getsockname(socket)
	must(err)
	return fmt.Sprint("127.0.0.1:", bound.(*syscall.SockaddrInet4).Port)
}

// A free address stays free for those that the test starts, one after the other,
// and is never given to anybody else.
func TestAFreeAddressIsHeld(t *testing.T) {
	t.Parallel()
	must := demand(t)
	address := freeAddress(t)
	for range 2 {
		l, err := net.Listen("tcp", address)
		must(err)
		visitor, err := net.Dial("tcp", address)
		must(err)
		guest, err := l.Accept()
		must(err, visitor.Close(), guest.Close(), l.Close()) // who closes first keeps its address for a while
	}
	if conn, err := net.Dial("tcp", address); err == nil {
		conn.Close()
		t.Error("somebody listens at a free address")
	}
	// Who asks for any port takes none that another socket is bound to.
	stranger := net.ListenConfig{Control: func(_, _ string, c syscall.RawConn) (err error) {
		if failed := c.Control(func(socket uintptr) {
			err = syscall.SetsockoptInt(int(socket), syscall.SOL_SOCKET, syscall.SO_REUSEADDR, 0)
		}); failed != nil {
			return failed
		}
		return err
	}}
	if l, err := stranger.Listen(t.Context(), "tcp", address); err == nil {
		l.Close()
		t.Error("nobody holds it")
	}
}
