package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"syscall"
	"time"
)

// The time limits of a connection. A webhook of 25 MiB must fit into the time
// to read, a decision that a request waits for into the time to write.
const (
	readHeaderTimeout = 10 * time.Second
	readTimeout       = time.Minute
	writeTimeout      = 90 * time.Second
	idleTimeout       = 2 * time.Minute
	maxHeaderBytes    = 64 << 10
)

// listener is one address that we serve. Connections wait until serve.
type listener struct {
	name   string
	net    net.Listener
	server *http.Server
}

// listen takes an address.
func listen(name, address string, log *slog.Logger) (*listener, error) {
	l, err := net.Listen("tcp", address)
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		return nil, fmt.Errorf("%s is %s, and another program listens there: stop it, or choose another port", name, address)
	case errors.Is(err, syscall.EACCES):
		return nil, fmt.Errorf("%s is %s, which this user may not use: choose a port above 1023", name, address)
	case err != nil:
		return nil, fmt.Errorf("listen on %s %s: %w", name, address, err)
	}
	return &listener{name: name, net: l, server: &http.Server{
		ReadHeaderTimeout: readHeaderTimeout, ReadTimeout: readTimeout, WriteTimeout: writeTimeout,
		IdleTimeout: idleTimeout, MaxHeaderBytes: maxHeaderBytes,
		ErrorLog: slog.NewLogLogger(log.With("listener", name).Handler(), slog.LevelDebug),
	}}, nil
}

// serve answers until stop. An error is one that nobody asked for.
func (l *listener) serve(handler http.Handler) error {
	l.server.Handler = handler
	if err := l.server.Serve(l.net); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve %s: %w", l.name, err)
	}
	return nil
}

// stop takes no new request and waits for those under way, for a while.
func (l *listener) stop(ctx context.Context) error {
	err := l.server.Shutdown(ctx)
	l.net.Close() // in case it was never served
	if err != nil {
		err = fmt.Errorf("stop serving %s: %w", l.name, errors.Join(err, l.server.Close()))
	}
	return err
}

// address is where it listens, with a host that a client on this machine can use.
func (l *listener) address() string {
	if l == nil {
		return ""
	}
	host, port, err := net.SplitHostPort(l.net.Addr().String())
	if ip := net.ParseIP(host); err == nil && ip != nil && ip.IsUnspecified() {
		return net.JoinHostPort("127.0.0.1", port)
	}
	return l.net.Addr().String()
}
