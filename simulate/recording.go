package simulate

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"
)

// A Recording has the answers of webhooks, by what they were asked. It is safe for
// concurrent use. The objects in it are whole: those of Secrets, too.
type Recording struct {
	// Time is when it was made: objects are created at that time in a replay.
	Time      time.Time  `json:"time"`
	Exchanges []Exchange `json:"exchanges"`

	mu   sync.Mutex
	used map[string]int
}

// An Exchange is one call of a webhook.
type Exchange struct {
	Configuration string `json:"configuration"`
	Webhook       string `json:"webhook"`
	// Request is that of the AdmissionReview, without uid.
	Request json.RawMessage `json:"request"`
	Code    int             `json:"code,omitempty"`
	// Response is the body, with uidMark in place of the uid; Text is one that is not JSON.
	Response json.RawMessage `json:"response,omitempty"`
	Text     string          `json:"text,omitempty"`
	// Error is why there was no answer.
	Error string `json:"error,omitempty"`
}

// uidMark replaces the uid of a request in a recorded response.
const uidMark = "<uid>"

// ReadRecording reads what [Recording.Write] wrote.
func ReadRecording(from io.Reader) (*Recording, error) {
	r := &Recording{}
	decoder := json.NewDecoder(from)
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(r); err != nil {
		return nil, fmt.Errorf("read recording: %w", err)
	}
	return r, nil
}

// Write writes the recording as JSON.
func (r *Recording) Write(to io.Writer) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	encoder := json.NewEncoder(to)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	if err := encoder.Encode(r); err != nil {
		return fmt.Errorf("write recording: %w", err)
	}
	return nil
}

func (r *Recording) add(c *call) {
	question, uid := questionOf(c.request)
	e := Exchange{Configuration: c.hook.configuration, Webhook: c.hook.webhook, Request: question, Code: c.code}
	body := []byte(strings.ReplaceAll(string(c.response), uid, uidMark))
	switch {
	case c.err != nil:
		e.Error = c.err.Error()
	case json.Valid(body):
		e.Response = body
	default:
		e.Text = string(body)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.Exchanges = append(r.Exchanges, e)
}

// questionOf is what a review asks, in one form whatever the order of its keys, and its uid.
func questionOf(review []byte) (json.RawMessage, string) {
	var parsed struct {
		Request map[string]json.RawMessage `json:"request"`
	}
	if json.Unmarshal(review, &parsed) != nil {
		return json.RawMessage("null"), uidMark
	}
	var uid string
	_ = json.Unmarshal(parsed.Request["uid"], &uid)
	delete(parsed.Request, "uid")
	question, err := json.Marshal(parsed.Request)
	if err != nil || uid == "" {
		return json.RawMessage("null"), uidMark
	}
	return canonical(question), uid
}

// canonical sorts the keys of JSON.
func canonical(raw []byte) json.RawMessage {
	decoder := json.NewDecoder(bytes.NewReader(raw))
	decoder.UseNumber()
	var value any
	if decoder.Decode(&value) != nil {
		return raw
	}
	sorted, err := json.Marshal(value)
	if err != nil {
		return raw
	}
	return sorted
}

// replay answers a call as it was answered before. What was asked several times is
// answered in the order in which it was.
func (r *Recording) replay(request *http.Request, c *call) (*http.Response, error) {
	question, uid := questionOf(c.request)
	e := r.next(c.hook, question)
	switch {
	case e == nil:
		return nil, fmt.Errorf("the recording has no answer of %s/%s to this review: record it again", c.hook.configuration, c.hook.webhook)
	case e.Error != "":
		return nil, errors.New(e.Error)
	}
	body := e.Text
	if e.Response != nil {
		body = string(e.Response)
	}
	body = strings.ReplaceAll(body, uidMark, uid)
	return &http.Response{
		Status: http.StatusText(e.Code), StatusCode: e.Code, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(strings.NewReader(body)), Request: request,
	}, nil
}

// next is the exchange whose turn it is; the last one serves for good.
func (r *Recording) next(hook hookName, question json.RawMessage) *Exchange {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.used == nil {
		r.used = map[string]int{}
	}
	key := hook.configuration + "\x00" + hook.webhook + "\x00" + string(question)
	var found *Exchange
	seen := 0
	for i := range r.Exchanges {
		e := &r.Exchanges[i]
		if e.Configuration != hook.configuration || e.Webhook != hook.webhook || !bytes.Equal(canonical(e.Request), question) {
			continue
		}
		found = e
		if seen++; seen > r.used[key] {
			break
		}
	}
	r.used[key]++
	return found
}
