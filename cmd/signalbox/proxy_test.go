package main

import (
	"errors"
	"io"
	"net"
	"net/url"
	"path/filepath"
	"sync"
	"testing"
)

// proxy is a network between two programs that can be cut. It forwards to
// whatever dial reaches, a Unix socket too, which the ready-made proxies do not.
type proxy struct {
	listener net.Listener
	dial     func() (net.Conn, error)

	mu    sync.Mutex
	moved *sync.Cond // state has changed
	state linkState
	conns map[net.Conn]struct{}
	done  sync.WaitGroup
}

// linkState is how a network is.
type linkState int

const (
	linkUp   linkState = iota
	linkCut            // connections are broken, and new ones refused
	linkHung           // nothing arrives, and nobody is told; later it does
	linkGone           // for good
)

func newProxy(t testing.TB, dial func() (net.Conn, error)) *proxy {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &proxy{listener: l, dial: dial, conns: map[net.Conn]struct{}{}}
	p.moved = sync.NewCond(&p.mu)
	p.done.Go(p.accept)
	t.Cleanup(func() {
		l.Close()
		p.set(linkGone)
		p.done.Wait()
	})
	return p
}

func (p *proxy) address() string { return p.listener.Addr().String() }

// set changes how the network is, for the connections that there are too.
func (p *proxy) set(s linkState) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.state = s
	if s == linkCut || s == linkGone {
		for c := range p.conns {
			c.Close()
		}
	}
	p.moved.Broadcast()
}

func (p *proxy) accept() {
	for {
		near, err := p.listener.Accept()
		if err != nil {
			return
		}
		p.done.Go(func() { p.forward(near) })
	}
}

// keep remembers a connection, so that it can be cut; false when it is already.
func (p *proxy) keep(c net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.state == linkCut || p.state == linkGone {
		c.Close()
		return false
	}
	p.conns[c] = struct{}{}
	return true
}

func (p *proxy) drop(c net.Conn) {
	c.Close()
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.conns, c)
}

func (p *proxy) forward(near net.Conn) {
	if !p.keep(near) {
		return
	}
	defer p.drop(near)
	far, err := p.dial()
	if err != nil || !p.keep(far) {
		return
	}
	defer p.drop(far)
	var both sync.WaitGroup
	both.Go(func() { p.copy(far, near) })
	both.Go(func() { p.copy(near, far) })
	both.Wait()
}

// copy carries bytes one way until that way ends; then the other end is told.
func (p *proxy) copy(to, from net.Conn) {
	buf := make([]byte, 32<<10)
	for {
		n, err := from.Read(buf)
		p.arrives()
		if n > 0 {
			if _, err := to.Write(buf[:n]); err != nil {
				from.Close()
				return
			}
		}
		if err != nil {
			if half, ok := to.(interface{ CloseWrite() error }); ok && errors.Is(err, io.EOF) {
				half.CloseWrite()
			} else {
				to.Close()
			}
			return
		}
	}
}

// arrives waits until the network lets bytes through.
func (p *proxy) arrives() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for p.state == linkHung {
		p.moved.Wait()
	}
}

// overTCP is the address of a database for who may not enter the folder of its
// socket, or shall not reach it all the time: it leads through a network. A database
// that listens on TCP has its own address, and no network.
func overTCP(t testing.TB, dsn string) (string, *proxy) {
	t.Helper()
	u, err := url.Parse(dsn)
	if err != nil {
		t.Fatal(err)
	}
	q := u.Query()
	if !filepath.IsAbs(q.Get("host")) {
		return dsn, nil
	}
	socket := filepath.Join(q.Get("host"), ".s.PGSQL."+q.Get("port"))
	p := newProxy(t, func() (net.Conn, error) { return net.Dial("unix", socket) })
	u.Host = p.address()
	q.Del("host")
	q.Del("port")
	q.Set("sslmode", "disable")
	u.RawQuery = q.Encode()
	return u.String(), p
}
