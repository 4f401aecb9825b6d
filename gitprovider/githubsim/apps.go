package githubsim

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// The calls an App makes as itself: about itself, its installations, their
// tokens, and its webhook deliveries.

// SetApp changes what the App asks for. Installations grant what they granted
// before, as on GitHub, until somebody accepts the rest (see AcceptPermissions).
func (s *Server) SetApp(permissions map[string]string, events []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.granted == nil {
		s.granted = s.app.permissions
	}
	s.app.permissions, s.app.events = permissions, events
}

// AcceptPermissions has every installation grant what the App asks for, and tells it.
func (s *Server) AcceptPermissions() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.granted = nil
	told := map[*account]bool{}
	for _, r := range s.reposByID {
		i := s.installationOf(r.owner)
		if i == nil || told[r.owner] {
			continue
		}
		told[r.owner] = true
		s.emit("installation", "new_permissions_accepted", r, i.owner, object{"installation": s.installationJSON(i), "repositories": []any{}, "requester": nil})
	}
}

// permitted are the permissions of installations. mu is held.
func (s *Server) permitted() map[string]string {
	if s.granted != nil {
		return s.granted
	}
	return s.app.permissions
}

func (c *call) getApp() (any, error) {
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	o := c.s.appJSON(c.s.app)
	o["installations_count"] = len(c.s.installations)
	return o, nil
}

func (c *call) listInstallations() (any, error) {
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	var all []*installation
	for _, i := range c.s.installations {
		all = append(all, i)
	}
	slices.SortFunc(all, func(a, b *installation) int { return int(a.id - b.id) })
	return paged(c, all, func(i *installation) any { return c.s.installationJSON(i) })
}

// installation finds the installation that the path names. mu is held.
func (c *call) installation() (*installation, error) {
	id, err := c.number("id")
	if err != nil {
		return nil, err
	}
	i := c.s.installations[id]
	if i == nil {
		return nil, notFound()
	}
	return i, nil
}

func (c *call) getInstallation() (any, error) {
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	i, err := c.installation()
	if err != nil {
		return nil, err
	}
	return c.s.installationJSON(i), nil
}

func (c *call) repoInstallation() (any, error) {
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	r := c.s.repoNamed(c.params["owner"] + "/" + c.params["repo"])
	if r == nil || c.s.installationOf(r.owner) == nil || r.outside {
		return nil, notFound()
	}
	return c.s.installationJSON(c.s.installationOf(r.owner)), nil
}

func (c *call) ownerInstallation() (any, error) {
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	i := c.s.installationOf(c.s.accounts[strings.ToLower(c.params["org"])])
	if i == nil {
		return nil, notFound()
	}
	return c.s.installationJSON(i), nil
}

func (c *call) createToken() (any, error) {
	var in struct {
		Repositories  []string          `json:"repositories"`
		RepositoryIDs []int64           `json:"repository_ids"`
		Permissions   map[string]string `json:"permissions"`
	}
	if err := c.decode(&in); err != nil {
		return nil, err
	}
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	inst, err := c.installation()
	if err != nil {
		return nil, err
	}
	if !inst.suspended.IsZero() {
		return nil, &apiError{status: 403, message: "This installation has been suspended"}
	}
	var only map[int64]bool
	limit := func(r *repo) error {
		if r == nil || !inst.has(r) {
			return invalid("There is at least one repository that does not exist or is not accessible to the parent installation.")
		}
		if only == nil {
			only = map[int64]bool{}
		}
		only[r.id] = true
		return nil
	}
	for _, name := range in.Repositories {
		if err := limit(c.s.repoNamed(inst.owner.login + "/" + name)); err != nil {
			return nil, err
		}
	}
	for _, id := range in.RepositoryIDs {
		if err := limit(c.s.reposByID[id]); err != nil {
			return nil, err
		}
	}
	permissions := c.s.permitted()
	if in.Permissions != nil {
		for name, level := range in.Permissions {
			if !granted(permissions, name+":"+level) {
				return nil, invalid("The permissions requested are not granted to this installation.")
			}
		}
		permissions = in.Permissions
	}
	t := c.s.installationToken(inst, permissions, only)
	o := object{"token": t.secret, "expires_at": when(t.expires), "permissions": permissions, "repository_selection": c.s.selection(inst)}
	if only != nil {
		o["repository_selection"] = "selected"
		repos := []any{}
		for id := range only {
			repos = append(repos, c.s.repoJSON(c.s.reposByID[id]))
		}
		o["repositories"] = repos
	}
	return reply{status: 201, body: o}, nil
}

func (c *call) revokeToken() (any, error) {
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	delete(c.s.tokens, c.who.token.secret)
	return reply{status: 204}, nil
}

func (c *call) installationRepos() (any, error) {
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	var all []*repo
	for _, r := range c.s.reposByID {
		if c.who.token.inst.has(r) && (c.who.token.only == nil || c.who.token.only[r.id]) {
			all = append(all, r)
		}
	}
	slices.SortFunc(all, func(a, b *repo) int { return int(a.id - b.id) })
	items, err := paged(c, all, func(r *repo) any { return c.s.repoJSON(r) })
	return object{"total_count": len(all), "repository_selection": c.s.selection(c.who.token.inst), "repositories": items}, err
}

func (c *call) meta() (any, error) {
	return object{"verifiable_password_authentication": false, "installed_version": "3.14.0"}, nil
}

func (c *call) hookConfig() (any, error) {
	d := c.s.hooks
	d.mu.Lock()
	defer d.mu.Unlock()
	return object{"content_type": "json", "insecure_ssl": "0", "secret": "********", "url": d.url}, nil
}

// deliveryJSON is a delivery as the list shows it.
func deliveryJSON(v *delivery) object {
	return object{
		"id": v.id, "guid": v.guid, "delivered_at": when(v.sent), "redelivery": v.redelivery, "duration": v.took.Seconds(),
		"status": v.status, "status_code": v.code, "event": v.event, "action": text(v.action),
		"installation_id": positive(v.installationID), "repository_id": positive(v.repositoryID), "throttled_at": nil,
	}
}

func positive(n int64) any {
	if n == 0 {
		return nil
	}
	return n
}

// listDeliveries pages with a cursor, newest first.
func (c *call) listDeliveries() (any, error) {
	per := 30
	if v, err := strconv.Atoi(c.query("per_page", "30")); err == nil && v > 0 {
		per = min(v, 100)
	}
	below := int64(1) << 62
	if v := c.query("cursor", ""); v != "" {
		id, err := strconv.ParseInt(strings.TrimPrefix(v, "v1_"), 10, 64)
		if err != nil {
			return nil, &apiError{status: 400, message: "Invalid cursor"}
		}
		below = id
	}
	d := c.s.hooks
	d.mu.Lock()
	defer d.mu.Unlock()
	out := []any{}
	for _, v := range slices.Backward(d.log) {
		if v.id >= below {
			continue
		}
		if len(out) == per {
			last := out[per-1].(object)["id"].(int64)
			c.w.Header().Set("Link", fmt.Sprintf(`<%s>; rel="next"`, c.pageURL("cursor", fmt.Sprintf("v1_%d", last))))
			break
		}
		out = append(out, deliveryJSON(v))
	}
	return out, nil
}

// delivery finds the delivery that the path names.
func (c *call) delivery() (*delivery, error) {
	id, err := c.number("id")
	if err != nil {
		return nil, err
	}
	d := c.s.hooks
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, v := range d.log {
		if v.id == id {
			return v, nil
		}
	}
	return nil, notFound()
}

func (c *call) getDelivery() (any, error) {
	v, err := c.delivery()
	if err != nil {
		return nil, err
	}
	o := deliveryJSON(v)
	o["url"] = c.s.hooks.address()
	o["request"] = object{"headers": v.headers, "payload": json.RawMessage(v.body)}
	o["response"] = object{"headers": object{}, "payload": v.response}
	return o, nil
}

func (c *call) redeliver() (any, error) {
	v, err := c.delivery()
	if err != nil {
		return nil, err
	}
	d := c.s.hooks
	d.mu.Lock()
	defer d.mu.Unlock()
	again := *v
	again.redelivery = true
	d.queue = append(d.queue, &again)
	d.signal()
	return reply{status: 202, body: object{}}, nil
}

// Grant changes what the App's installations grant, as an owner does who
// accepts other permissions. level "" takes one away. Tokens keep what they
// were made with.
func (s *Server) Grant(permission, level string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := maps.Clone(s.app.permissions)
	if delete(now, permission); level != "" {
		now[permission] = level
	}
	s.app.permissions = now
}
