package main

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
)

// logger makes the logger that settings ask for. A mistake in them is an
// error and a logger that works, so that it can be reported with others.
func (l logging) logger(to io.Writer) (*slog.Logger, error) {
	options := &slog.HandlerOptions{}
	var level slog.Level
	var err error
	switch strings.ToLower(l.LogLevel) {
	case "debug", "info", "warn", "error":
		_ = level.UnmarshalText([]byte(l.LogLevel)) // one of four that it knows
	default:
		err = fmt.Errorf("log-level is %q: give debug, info, warn or error", l.LogLevel)
	}
	options.Level = level
	switch strings.ToLower(l.LogFormat) {
	case "text":
		return slog.New(slog.NewTextHandler(to, options)), err
	case "json":
		return slog.New(slog.NewJSONHandler(to, options)), err
	default:
		return slog.New(slog.NewTextHandler(to, options)), errors.Join(err, fmt.Errorf("log-format is %q: give text or json", l.LogFormat))
	}
}
