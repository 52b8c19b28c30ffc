package cue

import (
	"errors"
	"fmt"
	"time"

	"github.com/usher-dev/usher/fact"
	"github.com/usher-dev/usher/internal/rule"

	"cuelang.org/go/cue"
)

const (
	// processing is the field with the http block for one HTTP request, and with the output field
	// for its response.
	processing = "processing"
	// fetchTimeout is the original's.
	fetchTimeout = 3 * time.Second
)

// fetch returns the response to the HTTP request of a source.
func (p *Program) fetch(in *rule.Input, request *fact.HTTP) (map[string]any, error) {
	answer, err := in.Facts.Value(request)
	if missing := (*fact.Missing)(nil); errors.As(err, &missing) {
		return nil, err
	}
	var body map[string]any
	if err == nil {
		body, err = bodyOf(answer)
	}
	if err != nil {
		return nil, fmt.Errorf("fail to exec http task, %w", err)
	}
	j := projection{limits: &p.evaluator.limits}
	output, err := j.value(body, &need{whole: true}, 0)
	if err != nil {
		return nil, fmt.Errorf("evaluate cue: read the answer of %s: %w", request, err)
	}
	object, _ := output.(map[string]any)
	return object, nil
}

// bodyOf returns the body of the value of a fact.HTTP.
func bodyOf(answer any) (map[string]any, error) {
	response, _ := answer.(map[string]any)
	body, ok := response["body"].(map[string]any)
	if !ok {
		return nil, errors.New("the body of the answer is not a JSON object")
	}
	return body, nil
}

// requestIn reads a processing.http block.
func requestIn(block cue.Value) (*fact.HTTP, error) {
	request := &fact.HTTP{Timeout: fetchTimeout}
	var err error
	if request.Method, err = text(block, "method"); err != nil {
		return nil, err
	}
	if request.URL, err = text(block, "url"); err != nil {
		return nil, err
	}
	if body := at(block, "request", "body"); body.Exists() {
		if request.Body, err = bytesOrString(body); err != nil {
			return nil, fmt.Errorf("parse request.body: %w", err)
		}
	}
	if request.Header, err = texts(block, "header"); err != nil {
		return nil, err
	}
	if request.Header == nil {
		request.Header = map[string]string{"Content-Type": "application/json"}
	}
	if request.Trailer, err = texts(block, "trailer"); err != nil {
		return nil, err
	}
	request.TLS, err = tlsIn(block)
	return request, err
}

func at(value cue.Value, names ...string) cue.Value {
	selectors := make([]cue.Selector, len(names))
	for i, name := range names {
		selectors[i] = cue.Str(name)
	}
	return value.LookupPath(cue.MakePath(selectors...))
}

func text(block cue.Value, name string) (string, error) {
	s, err := at(block, name).String()
	if err != nil {
		return "", fmt.Errorf("parse %s: %w", name, &evalError{err})
	}
	return s, nil
}

func bytesOrString(value cue.Value) (string, error) {
	b, err := value.Bytes()
	if err != nil {
		return "", &evalError{err}
	}
	return string(b), nil
}

// texts reads a map of strings in the request, nil if there is none.
func texts(block cue.Value, name string) (map[string]string, error) {
	value := at(block, "request", name)
	if !value.Exists() {
		return nil, nil
	}
	fields, err := value.Fields()
	if err != nil {
		return nil, fmt.Errorf("parse request.%s: %w", name, &evalError{err})
	}
	texts := map[string]string{}
	for fields.Next() {
		key := fields.Selector().Unquoted()
		if texts[key], err = fields.Value().String(); err != nil {
			return nil, fmt.Errorf("parse request.%s: %w", name, &evalError{err})
		}
	}
	return texts, nil
}

// tlsIn reads the tls_config block, nil if there is none. A client certificate needs its key.
func tlsIn(block cue.Value) (*fact.TLS, error) {
	config := at(block, "tls_config")
	if !config.Exists() {
		return nil, nil
	}
	tls := &fact.TLS{}
	var err error
	if tls.CA, err = bytesOrString(at(config, "ca")); err != nil {
		return nil, fmt.Errorf("parse ca: %w", err)
	}
	cert, key := at(config, "client_crt"), at(config, "client_key")
	if !cert.Exists() || !key.Exists() {
		return tls, nil
	}
	if tls.Cert, err = bytesOrString(cert); err != nil {
		return nil, fmt.Errorf("parse client_crt: %w", err)
	}
	if tls.Key, err = bytesOrString(key); err != nil {
		return nil, fmt.Errorf("parse client_key: %w", err)
	}
	return tls, nil
}
