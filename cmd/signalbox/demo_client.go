package main

import (
	"strings"

	"signalbox/api"
)

// newClient calls the API about the queue for main of one of the demo's
// repositories, as anybody's program would. Each call is tried once.
func newClient(w whereabouts, token, name string) *api.Queue {
	c, err := api.New(api.Config{URL: strings.TrimSuffix(w.API, "/v1"), Token: token, UserAgent: userAgent()})
	if err != nil {
		panic(err) // Unreachable: it is the address of a server that we started
	}
	return &api.Queue{Client: c, Host: w.Host, Owner: w.Org, Name: name, Branch: "main"}
}
