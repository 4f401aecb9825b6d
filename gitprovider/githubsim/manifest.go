package githubsim

import (
	"encoding/json"
	"fmt"
	"html/template"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
)

// Making an App from a manifest, as GitHub does: a page that shows what is
// asked for, with a button; a visit back with a code; and the call that trades
// the code for the App's secrets. The App that is made takes the place of the
// one that the simulator began with.
// https://docs.github.com/en/apps/sharing-github-apps/registering-a-github-app-from-a-manifest

// eventNeeds is the permission without which GitHub offers an event.
var eventNeeds = map[string]string{
	"branch_protection_rule": "administration", "check_run": "checks", "check_suite": "checks", "issue_comment": "issues", "label": "metadata",
	"member": "members", "pull_request": "pull_requests", "pull_request_review": "pull_requests", "pull_request_review_thread": "pull_requests",
	"push": "contents", "repository": "metadata", "repository_ruleset": "administration", "status": "statuses", "workflow_run": "actions",
}

// appManifest is what an App is made from.
type appManifest struct {
	Name string `json:"name"`
	URL  string `json:"url"`
	Hook *struct {
		URL    string `json:"url"`
		Active *bool  `json:"active"`
	} `json:"hook_attributes"`
	RedirectURL string            `json:"redirect_url"`
	Callbacks   []string          `json:"callback_urls"`
	Permissions map[string]string `json:"default_permissions"`
	Events      []string          `json:"default_events"`
}

// wrong says, in GitHub's words, why it takes no such manifest; "" if it does.
func (m appManifest) wrong() string {
	web := func(text string) bool {
		u, err := url.Parse(text)
		return err == nil && u.Host != "" && (u.Scheme == "https" || u.Scheme == "http")
	}
	switch {
	case !web(m.URL), m.Hook != nil && !web(m.Hook.URL):
		return `"url" wasn't supplied.`
	case len(m.Name) > 34:
		return "Name is too long (maximum is 34 characters)"
	case !web(m.RedirectURL):
		return "Redirect url is not a valid URL"
	}
	var unknown, unsupported []string
	for _, e := range m.Events {
		need, known := eventNeeds[e]
		switch {
		case !known:
			unknown = append(unknown, e)
		case need != "metadata" && m.Permissions[need] == "":
			unsupported = append(unsupported, e)
		}
	}
	if len(unknown) > 0 { // installation events, too: they come by themselves
		return "Default events unsupported: " + strings.Join(unknown, ", ")
	}
	if len(unsupported) > 0 {
		return "Default events are not supported by permissions: " + strings.Join(unsupported, ", ")
	}
	for name, level := range m.Permissions {
		if allPermissions[name] == "" || !slices.Contains([]string{"read", "write", "admin"}, level) {
			return "Default permission records resource is not included in the list"
		}
	}
	return ""
}

// madeApp is an App whose secrets wait to be fetched.
type madeApp struct {
	manifest appManifest
	owner    string // organisation; "" for the visitor
}

var newAppPath = regexp.MustCompile(`^(?:/organizations/([A-Za-z0-9-]+))?/settings/apps/new$`)

var newAppPage = template.Must(template.New("").Parse(`<!doctype html><title>Create GitHub App</title>
{{if .Wrong}}<h1>Invalid GitHub App configuration</h1><p id="error">The configuration does not appear to be a valid GitHub App manifest. Error {{.Wrong}}</p>
{{else}}<h1>Create GitHub App for {{.Owner}}</h1><form method="post" action="{{.Action}}">
<input type="hidden" name="manifest" value="{{.Manifest}}"><input type="hidden" name="confirmed" value="yes">
<label>GitHub App name <input name="name" value="{{.Name}}"></label> <button id="confirm">Create GitHub App</button></form>{{end}}`))

// serveNewApp is the page where an App is made from a manifest.
func (s *Server) serveNewApp(w http.ResponseWriter, r *http.Request, org string) {
	if r.Method != http.MethodPost {
		http.Error(w, "post a manifest here", http.StatusMethodNotAllowed)
		return
	}
	r.Body = http.MaxBytesReader(w, r.Body, 1<<20)
	text := r.PostFormValue("manifest")
	var m appManifest
	view := struct{ Wrong, Owner, Action, Manifest, Name string }{Owner: orElse(org, "you"), Action: r.URL.RequestURI(), Manifest: text}
	if err := json.Unmarshal([]byte(text), &m); err != nil {
		view.Wrong = "it is no JSON object"
	} else {
		view.Wrong, view.Name = m.wrong(), m.Name
	}
	if view.Wrong == "" && r.PostFormValue("confirmed") == "yes" {
		m.Name = orElse(r.PostFormValue("name"), m.Name)
		code := newSecret("")
		s.mu.Lock()
		s.made[code] = madeApp{m, org}
		s.mu.Unlock()
		back, _ := url.Parse(m.RedirectURL)
		q := back.Query()
		q.Set("code", code)
		if state := r.URL.Query().Get("state"); state != "" {
			q.Set("state", state)
		}
		back.RawQuery = q.Encode()
		http.Redirect(w, r, back.String(), http.StatusFound)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	if view.Wrong != "" {
		w.WriteHeader(http.StatusUnprocessableEntity)
	}
	_ = newAppPage.Execute(w, view)
}

var notSlug = regexp.MustCompile(`[^a-z0-9]+`)

// convertManifest trades a code for an App with its secrets, once.
func (c *call) convertManifest() (any, error) {
	key, err := NewAppKey()
	if err != nil {
		return nil, err
	}
	public, err := parseAppKey(key)
	if err != nil {
		return nil, err
	}
	s := c.s
	s.mu.Lock()
	defer s.mu.Unlock()
	made, there := s.made[c.params["code"]]
	if !there {
		return nil, notFound()
	}
	delete(s.made, c.params["code"])
	slug := strings.Trim(notSlug.ReplaceAllString(strings.ToLower(made.manifest.Name), "-"), "-")
	secret := newSecret("")
	a := &app{
		id: s.newID(), slug: slug, name: made.manifest.Name, owner: s.accountNamed(orElse(made.owner, "app-maker"), "Organization"),
		bot: s.accountNamed(slug+"[bot]", "Bot"), permissions: made.manifest.Permissions, events: made.manifest.Events, created: s.now(),
	}
	a.bot.app = a.id
	s.app, s.key, s.cfg.AppID, s.granted = a, public, a.id, nil
	if len(made.manifest.Callbacks) > 0 {
		s.callback = made.manifest.Callbacks[0]
	}
	if made.manifest.Hook != nil {
		s.hooks.target(made.manifest.Hook.URL, secret)
	}
	o := s.appJSON(a)
	o["client_id"], o["client_secret"], o["webhook_secret"], o["pem"] = s.clientID, s.clientSecret, secret, string(key)
	o["description"], o["external_url"] = nil, made.manifest.URL
	return reply{status: 201, body: o}, nil
}

// AppSlug is the name of the App in addresses, as it is now.
func (s *Server) AppSlug() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return fmt.Sprint(s.app.slug)
}
