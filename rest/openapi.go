package rest

import (
	"context"
	_ "embed"
	"fmt"
	"sync"

	"github.com/goccy/go-yaml"
)

// description is the OpenAPI description of all routes. What it says of them
// is held against what they do by a test.
//
//go:embed openapi/v1.yaml
var description []byte

// manual is the description in the forms in which it is read, made when it is
// first asked for.
type manual struct{ json, page func() ([]byte, error) }

func newManual() manual {
	return manual{
		json: sync.OnceValues(func() ([]byte, error) { return yaml.YAMLToJSON(description) }),
		page: sync.OnceValues(func() ([]byte, error) { return renderDocs(description) }),
	}
}

func (a *API) getOpenAPI(context.Context, *call) (any, error) {
	text, err := a.manual.json()
	if err != nil {
		return nil, fmt.Errorf("write the description as JSON: %w", err)
	}
	return document{kind: jsonType, body: text}, nil
}

func (a *API) getDocs(context.Context, *call) (any, error) {
	page, err := a.manual.page()
	if err != nil {
		return nil, fmt.Errorf("render the description: %w", err)
	}
	return document{kind: "text/html; charset=utf-8", body: page, policy: docsPolicy()}, nil
}
