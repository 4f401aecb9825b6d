// Package githubspec holds a GitHub to what GitHub publishes about itself: its
// OpenAPI description of the REST API, and the schemas of its webhooks. Tests
// use it so that the simulator, and what we ask of it, cannot drift from the
// real thing unnoticed. No program imports it.
//
// # What is kept
//
// testdata has the published files cut down to what the simulator has:
//
//	api.json       GitHub's OpenAPI description (npm @octokit/openapi), the
//	               calls of the simulator's route table with all they refer to
//	events.json    the same description's webhooks (npm
//	               @octokit/openapi-webhooks), the events that the simulator sends
//	schemas.json   the community's JSON schemas of webhooks (npm
//	               @octokit/webhooks-schemas), of the same events as far as it
//	               has them
//	NOTICE         where they are from, and their licence
//
// Descriptions and examples are left out of all of them.
//
// # How to add a call or an event
//
// Add the route to the simulator's table, or the event to what it sends, then
// run "make github-spec": it fetches the published packages, at the versions
// that testdata/fetch.sh names, and writes the files anew. "make test" fails until
// then and says so. CI fetches the packages too and checks that the files are
// what the packages say.
package githubspec
