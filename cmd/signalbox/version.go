package main

import (
	"encoding/json"
	"fmt"
	"runtime"
	"runtime/debug"
)

// version is set by the linker (see the Makefile); a build without it is
// named by its commit.
var version string

// versionCommand prints what this program is.
type versionCommand struct {
	JSON bool `name:"json" help:"Print JSON."`
}

// Run prints.
func (v versionCommand) Run(c console) error {
	if v.JSON {
		return printJSON(c, map[string]string{"version": programVersion(), "go": runtime.Version()})
	}
	_, err := fmt.Fprintf(c.out, "signalbox %s (%s)\n", programVersion(), runtime.Version())
	return err
}

func programVersion() string {
	if version != "" {
		return version
	}
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, s := range info.Settings {
			if s.Key == "vcs.revision" {
				return s.Value[:min(12, len(s.Value))]
			}
		}
	}
	return "development"
}

// printJSON writes one line of JSON.
func printJSON(c console, v any) error {
	encoder := json.NewEncoder(c.out)
	encoder.SetEscapeHTML(false)
	return encoder.Encode(v)
}

// userAgent is how this program names itself to servers.
func userAgent() string { return "signalbox/" + programVersion() }
