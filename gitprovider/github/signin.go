package github

import (
	"context"
	"fmt"
	"net/http"
	"net/url"

	"github.com/google/go-github/v60/github"
	"golang.org/x/oauth2"

	"signalbox/queue"
)

// SignIn finds out who a person is, by the OAuth of a GitHub App: the person is
// led to AuthURL, agrees, and comes back with a code that Identify trades for
// an answer. The access that GitHub grants with it is used for that one
// question and thrown away.
// https://docs.github.com/en/apps/creating-github-apps/authenticating-with-a-github-app/generating-a-user-access-token-for-a-github-app
type SignIn struct {
	client *Client
	oauth  oauth2.Config
}

// SignIn makes the sign-in of the client's App. id and secret are the App's
// client id and client secret.
func (c *Client) SignIn(id, secret string) *SignIn {
	return &SignIn{client: c, oauth: oauth2.Config{
		ClientID: id, ClientSecret: secret,
		Endpoint: oauth2.Endpoint{
			AuthURL: c.webURL + "/login/oauth/authorize", TokenURL: c.webURL + "/login/oauth/access_token",
			AuthStyle: oauth2.AuthStyleInParams,
		},
	}}
}

// AuthURL is the host's page that asks the person. state comes back with the
// answer; verifier is the secret of PKCE, of which the page gets a hash; back
// is where the person is led afterwards.
func (s *SignIn) AuthURL(state, verifier, back string) string {
	o := s.oauth
	o.RedirectURL = back
	return o.AuthCodeURL(state, oauth2.S256ChallengeOption(verifier))
}

// Identify trades a code for who the person is. An error says nothing that is
// secret.
func (s *SignIn) Identify(ctx context.Context, code, verifier, back string) (queue.Actor, error) {
	ctx, cancel := context.WithTimeout(ctx, s.client.cfg.CallTimeout)
	defer cancel()
	calls := &http.Client{Transport: s.client.base}
	o := s.oauth
	o.RedirectURL = back
	token, err := o.Exchange(context.WithValue(ctx, oauth2.HTTPClient, calls), code, oauth2.VerifierOption(verifier))
	if err != nil {
		return queue.Actor{}, fmt.Errorf("trade the code of a sign-in: %w", err)
	}
	api := github.NewClient(calls).WithAuthToken(token.AccessToken)
	if api.BaseURL, err = url.Parse(s.client.apiURL + "/"); err != nil {
		return queue.Actor{}, err
	}
	user, _, err := api.Users.Get(ctx, "")
	if err != nil {
		return queue.Actor{}, fmt.Errorf("ask who signed in: %w", err)
	}
	if user.GetID() == 0 || user.GetLogin() == "" {
		return queue.Actor{}, fmt.Errorf("ask who signed in: the host named nobody")
	}
	return queue.Actor{Login: user.GetLogin(), ID: user.GetID(), Bot: user.GetType() == "Bot"}, nil
}
