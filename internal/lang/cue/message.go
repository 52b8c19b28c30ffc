package cue

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strconv"

	kjson "sigs.k8s.io/json"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/fact"
	"github.com/usher-dev/usher/internal/jsontree"
	"github.com/usher-dev/usher/internal/rule"
)

// A request is a request to the evaluator: to check a source, or to run one.
type request struct {
	// Key identifies the source. A worker that does not have it says so, and the request is sent
	// again with Source.
	Key    string `json:"key"`
	Source string `json:"source,omitempty"`
	Form   Form   `json:"form"`
	// Check asks for the problems of the source only.
	Check bool `json:"check,omitempty"`
	// Input are the parameters by name; Output is the response to the HTTP request of the source,
	// nil if there is none yet.
	Input  map[string]any `json:"input,omitempty"`
	Output map[string]any `json:"output"`
	// input creates Input when the request is sent: waiting requests take no memory.
	input func() (map[string]any, error)
}

// encode writes a request.
func (r *request) encode() ([]byte, error) {
	whole, err := r.withInput()
	if err != nil {
		return nil, err
	}
	data, err := whole.append(make([]byte, 0, usualRequest))
	if err != nil {
		return nil, fmt.Errorf("write the input: %w", err)
	}
	return data, nil
}

// usualRequest is how long requests without a source usually are.
const usualRequest = 512

// append appends a request as json.Marshal would write it.
func (r *request) append(to []byte) ([]byte, error) {
	to = jsontree.AppendString(append(to, `{"key":`...), r.Key)
	if r.Source != "" {
		to = jsontree.AppendString(append(to, `,"source":`...), r.Source)
	}
	to = strconv.AppendInt(append(to, `,"form":`...), int64(r.Form), 10)
	if r.Check {
		to = append(to, `,"check":true`...)
	}
	var err error
	if len(r.Input) > 0 {
		if to, err = jsontree.Append(append(to, `,"input":`...), r.Input); err != nil {
			return nil, err
		}
	}
	if to, err = jsontree.Append(append(to, `,"output":`...), r.Output); err != nil {
		return nil, err
	}
	return append(to, '}'), nil
}

// withInput returns r with its Input.
func (r *request) withInput() (*request, error) {
	if r.input == nil {
		return r, nil
	}
	whole := *r
	var err error
	whole.Input, err = r.input()
	return &whole, err
}

// A response is the response of the evaluator.
type response struct {
	// Unknown: the worker does not have the source.
	Unknown  bool           `json:"unknown,omitempty"`
	Problems []rule.Problem `json:"problems,omitempty"`
	// Error is what CUE has against the input.
	Error    string          `json:"error,omitempty"`
	Fetch    *fact.HTTP      `json:"fetch,omitempty"`
	Denied   bool            `json:"denied,omitempty"`
	Message  string          `json:"message,omitempty"`
	Warnings []string        `json:"warnings,omitempty"`
	Patch    []usher.PatchOp `json:"patch,omitempty"`
}

// keyOf returns the key of a source.
func keyOf(source string, form Form) string {
	hash := sha256.Sum256([]byte(source))
	return fmt.Sprintf("%d-%s", form, hex.EncodeToString(hash[:]))
}

// mostAnswered limits the values of a response: each takes about a hundred bytes decoded, and as
// few as two in the text.
const mostAnswered = 50_000

// read reads what a worker has sent, which may be anything.
func read(data []byte, limit int) (*response, error) {
	if len(data) > limit {
		return nil, fmt.Errorf("%w: the result has more than %d bytes", ErrTooLarge, limit)
	}
	if valuesIn(data) > mostAnswered {
		return nil, fmt.Errorf("%w: the result has more than %d values", ErrTooLarge, mostAnswered)
	}
	var r response
	if err := kjson.UnmarshalCaseSensitivePreserveInts(data, &r); err != nil {
		return nil, fmt.Errorf("read the answer of the evaluator: %w", err)
	}
	for _, op := range r.Patch {
		switch op.Op {
		case "add", "remove", "replace", "test":
		case "copy", "move":
			if op.From == "" {
				return nil, fmt.Errorf("read the answer of the evaluator: %s without from", op.Op)
			}
		default:
			return nil, fmt.Errorf("read the answer of the evaluator: unexpected op %q", op.Op)
		}
	}
	return &r, nil
}

// valuesIn returns how many values a JSON text has at most.
func valuesIn(data []byte) int {
	n, inString, escaped := 1, false, false
	for _, b := range data {
		switch {
		case escaped:
			escaped = false
		case inString:
			escaped, inString = b == '\\', b != '"'
		case b == '"':
			inString = true
		case b == ',', b == '{', b == '[':
			n++
		}
	}
	return n
}

// encode writes an answer; the parent reads no longer one than limit.
func (r *response) encode() []byte {
	data, err := json.Marshal(r)
	if err != nil {
		data, _ = json.Marshal(&response{Error: "write the result: " + err.Error()})
	}
	return data
}

// outcome is the outcome of a response without an error.
func (r *response) outcome() rule.Outcome {
	switch {
	case r.Denied:
		return rule.Outcome{Verdict: usher.Deny, Message: r.Message, Warnings: r.Warnings}
	case len(r.Patch) > 0:
		return rule.Outcome{Patch: r.Patch}
	}
	return rule.Outcome{Warnings: r.Warnings}
}

// responseOf is the response for the result of a source.
func responseOf(outcome rule.Outcome, fetch *fact.HTTP, err error) *response {
	if err != nil {
		return &response{Error: err.Error()}
	}
	return &response{
		Fetch: fetch, Denied: outcome.Verdict == usher.Deny, Message: outcome.Message, Warnings: outcome.Warnings, Patch: outcome.Patch,
	}
}
