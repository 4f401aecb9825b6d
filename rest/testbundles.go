package rest

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"github.com/google/uuid"

	"signalbox/flaky"
	"signalbox/queue"
)

// The upload protocol of the analytics CLI that people already have: it asks for
// an address, puts a bundle of reports there, and asks which failures are
// quarantined. The CLI takes 401, 403 and 404 for a reason to fail the job, and
// everything else for our trouble; so what is our trouble is always 503 here.

// headerPublicRepo names a repository in place of a token. It is no secret: CI
// of forks, which has none, sends it.
const headerPublicRepo = "X-Trunk-Public-Repo-Id"

// fromPublic reports whether a request without a token names a repository that
// may take uploads from everybody.
func fromPublic(header http.Header) bool { return header.Get(headerPublicRepo) != "" }

// bundlePath is where bundles are put.
const bundlePath = "/v1/metrics/bundle"

// bundleFor is how long the address of a bundle is valid.
const bundleFor = time.Hour

// bundleSecret is the name under which the key of these addresses is kept.
const bundleSecret = "bundle addresses"

// maxIdentifiers is how many failures may be asked about at once.
const maxIdentifiers = 100_000

// bundlePlace is what every request of the protocol names.
type bundlePlace struct{ testPlace }

func (p *bundlePlace) fields() []field {
	return []field{p.repoField(), required("orgUrlSlug", text(&p.slug, maxSlug))}
}

// bundleTicket is what the address of a bundle says: where it belongs, and until
// when. It is signed, and nobody else than us reads it.
type bundleTicket struct {
	ID      uuid.UUID    `json:"i"`
	Repo    queue.RepoID `json:"r"`
	Trusted bool         `json:"t"` // it was asked for with a token
	Until   int64        `json:"u"` // seconds since 1970
}

// bundleUpload is where a bundle is to be put.
type bundleUpload struct {
	ID   string `json:"id"`
	IDV2 string `json:"idV2"`
	URL  string `json:"url"`
	Key  string `json:"key"`
}

func (a *API) createBundleUpload(ctx context.Context, c *call) (any, error) {
	var p bundlePlace
	if err := decode(c.body, p.fields()...); err != nil {
		return nil, err
	}
	repo, err := a.repository(ctx, c, &p.testPlace)
	if err != nil {
		return nil, err
	}
	ticket := bundleTicket{ID: uuid.New(), Repo: repo.ID, Trusted: !c.anonymous(), Until: c.now.Add(bundleFor).Unix()}
	key, err := a.ownKey(ctx, bundleSecret)
	if err != nil {
		return nil, err
	}
	id := ticket.ID.String()
	return bundleUpload{ID: id, IDV2: id, Key: id + ".tar.zstd", URL: a.baseURL + bundlePath + "?ticket=" + url.QueryEscape(ticket.sign(key))}, nil
}

// sign writes the ticket and its HMAC-SHA256, in base64url.
func (t bundleTicket) sign(key []byte) string {
	text, err := json.Marshal(t)
	if err != nil {
		return "" // Unreachable: four plain fields
	}
	return base64.RawURLEncoding.EncodeToString(append(text, macOf(key, text)...))
}

func macOf(key, text []byte) []byte {
	h := hmac.New(sha256.New, key)
	h.Write(text)
	return h.Sum(nil)
}

// readTicket is the ticket that an address was made of.
func readTicket(key []byte, signed string) (t bundleTicket, ok bool) {
	raw, err := base64.RawURLEncoding.Strict().DecodeString(signed)
	if err != nil || len(raw) <= sha256.Size {
		return t, false
	}
	text, mac := raw[:len(raw)-sha256.Size], raw[len(raw)-sha256.Size:]
	if !hmac.Equal(mac, macOf(key, text)) {
		return t, false
	}
	return t, json.Unmarshal(text, &t) == nil
}

// checkBundle looks at the address before the body is read.
func (a *API) checkBundle(ctx context.Context, c *call) error {
	key, err := a.ownKey(ctx, bundleSecret)
	if err != nil {
		return err
	}
	t, ok := readTicket(key, c.query.Get("ticket"))
	switch {
	case !ok:
		return &failure{status: http.StatusForbidden, code: CodeUploadAddressInvalid,
			message: "This is no address that createBundleUpload has given out."}
	case !c.now.Before(time.Unix(t.Until, 0)):
		return &failure{status: http.StatusForbidden, code: CodeUploadAddressExpired,
			message: "The address was valid for an hour. Ask createBundleUpload for another one."}
	}
	c.ticket = t
	return nil
}

// putBundle keeps a bundle. The same again changes nothing; something else at
// the same address is refused.
func (a *API) putBundle(ctx context.Context, c *call) (any, error) {
	if len(c.body) == 0 {
		return nil, invalidRequest("The body is empty; it must be a bundle of test reports.")
	}
	u := flaky.Upload{Repository: int64(c.ticket.Repo), Received: c.now, Sent: flaky.Sent{Bundle: true, Trusted: c.ticket.Trusted}}
	id, fresh, err := a.tests.AddBundle(ctx, c.ticket.ID, u, sha256.Sum256(c.body), c.body)
	switch {
	case errors.Is(err, queue.ErrExists):
		return nil, &failure{status: http.StatusConflict, code: CodeUploadDiffers,
			message: "Another bundle was put at this address. Ask createBundleUpload for an address of its own."}
	case errors.Is(err, queue.ErrNotFound): // removed within the hour
		return nil, notFound(CodeRepositoryNotFound, "The repository of this bundle does not exist any more.")
	case err != nil:
		return nil, fmt.Errorf("keep a bundle: %w", err)
	}
	return keptUpload{fmt.Sprint(id), fresh}, nil
}

// quarantineConfig says which failures are excused.
type quarantineConfig struct {
	IsDisabled bool     `json:"isDisabled"`
	TestIDs    []string `json:"testIds"`
}

// identifier is a failure that is asked about.
type identifier struct {
	test    flaky.Test
	id      string
	message string
}

func (a *API) getQuarantineConfig(ctx context.Context, c *call) (any, error) {
	var p bundlePlace
	var asked []identifier
	if err := decode(c.body, append(p.fields(), optional("testIdentifiers", identifiers(&asked)))...); err != nil {
		return nil, err
	}
	repo, err := a.repository(ctx, c, &p.testPlace)
	var f *failure
	if errors.As(err, &f) && f.code == CodeRepositoryNotFound {
		return quarantineConfig{IsDisabled: true, TestIDs: []string{}}, nil // nothing is quarantined in what nobody knows
	}
	if err != nil {
		return nil, err
	}
	on, err := a.tests.QuarantineOn(ctx, repo.ID)
	if err != nil {
		return nil, fmt.Errorf("read whether a repository has quarantine: %w", err)
	}
	out := quarantineConfig{IsDisabled: !on, TestIDs: []string{}}
	switch {
	case !on:
	case len(asked) == 0:
		out.TestIDs, err = a.tests.AllQuarantined(ctx, repo.ID, c.now)
		out.TestIDs = list(out.TestIDs)
	default:
		out.TestIDs, err = a.excused(ctx, c, repo, p, asked)
	}
	if err != nil {
		return nil, fmt.Errorf("find quarantined tests: %w", err)
	}
	return out, nil
}

// excused are the ids, as they were sent, of the failures that are excused. A
// client makes ids of names as we do, but perhaps of another spelling of the
// organisation; or it sends the id that a report has for its test.
func (a *API) excused(ctx context.Context, c *call, repo queue.Repo, p bundlePlace, asked []identifier) ([]string, error) {
	org := c.org.Slug
	if org == "" {
		org = p.slug
	}
	var failures []flaky.AskedFailure
	for _, i := range asked {
		i.test.Org, i.test.Repo, i.test.Given = org, repo.String(), i.id
		ids := []uuid.UUID{i.test.ID()}
		i.test.Given = ""
		ids = append(ids, i.test.ID())
		if id, err := uuid.Parse(i.id); err == nil {
			ids = append(ids, id)
		}
		failures = append(failures, flaky.AskedFailure{Tests: ids, Text: i.message})
	}
	excused, err := a.tests.Excused(ctx, repo.ID, failures, c.now)
	if err != nil {
		return nil, err
	}
	ids := []string{}
	for n, yes := range excused {
		if yes {
			ids = append(ids, asked[n].id)
		}
	}
	return ids, nil
}

// identifiers reads failures. What is not known of one is null or left out.
func identifiers(to *[]identifier) func(*form, value) {
	return func(f *form, v value) {
		f.array(v, "objects", maxIdentifiers, func(item value) {
			var i identifier
			f.object(item, []field{
				required("id", anyText(&i.id)), optional("name", anyText(&i.test.Name)), optional("parentName", anyText(&i.test.Parent)),
				optional("className", anyText(&i.test.Classname)), optional("file", anyText(&i.test.File)), optional("variant", anyText(&i.test.Variant)),
				optional("failure_message", anyText(&i.message)),
			})
			*to = append(*to, i)
		})
	}
}

// telemetry takes what the CLI tells of itself, and forgets it.
func (a *API) telemetry(context.Context, *call) (any, error) { return struct{}{}, nil }

// publicRepository finds the repository that an anonymous caller names. Whatever
// does not fit gets one and the same answer.
func (a *API) publicRepository(ctx context.Context, c *call, p *testPlace) (queue.Repo, error) {
	unknown := &failure{status: http.StatusUnauthorized, code: CodePublicRepoUnknown,
		message: fmt.Sprintf("The id in the header x-trunk-public-repo-id is not one that lets everybody upload test results of %s in the organisation %s.", p.repo(), clip(p.slug))}
	given := c.header.Get(headerPublicRepo)
	if len(given) > maxSlug {
		return queue.Repo{}, unknown
	}
	repo, slug, err := a.tests.PublicRepository(ctx, given)
	if err != nil {
		return repo, orNotFound(fmt.Errorf("find repository: %w", err), unknown)
	}
	if lower(slug) != lower(p.slug) || lower(repo.String()) != lower(p.repo()) {
		return queue.Repo{}, unknown
	}
	return repo, nil
}

// publicUploads is whether everybody may upload test results of a repository.
type publicUploads struct {
	Enabled      bool   `json:"enabled"`
	PublicRepoID string `json:"public_repo_id"` // "" when they may not
}

func (a *API) setPublicUploads(ctx context.Context, c *call) (any, error) {
	var on *bool
	_, repo, err := a.namedTests(ctx, c, required("enabled", boolean(&on)))
	if err != nil {
		return nil, err
	}
	id, err := a.tests.SetPublicUploads(ctx, repo.ID, *on)
	if err != nil {
		return nil, fmt.Errorf("set public uploads: %w", err)
	}
	return publicUploads{*on, id}, nil
}

// mend makes texts of a body valid that could not be stored: NUL, halves of
// surrogate pairs and bytes that are no UTF-8 become U+FFFD. What tests print
// has them, and a job must not fail because of it.
func mend(body []byte) []byte {
	body = bytes.ReplaceAll(bytes.ToValidUTF8(body, []byte("\uFFFD")), []byte{0}, []byte("\uFFFD"))
	if !bytes.Contains(body, []byte(`\u`)) || !json.Valid(body) {
		return body
	}
	out := make([]byte, 0, len(body))
	for at := 0; at < len(body); {
		if body[at] != '\\' {
			out = append(out, body[at])
			at++
			continue
		}
		n := 2
		if body[at+1] == 'u' {
			n = 6
			if textProblem(body[at:at+6]) != "" {
				if pair := body[at:min(at+12, len(body))]; len(pair) == 12 && textProblem(pair) == "" {
					n = 12
				} else {
					out = append(out, `\ufffd`...)
					at += 6
					continue
				}
			}
		}
		out = append(out, body[at:at+n]...)
		at += n
	}
	return out
}
