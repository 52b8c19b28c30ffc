package authorization_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"k8s.io/apimachinery/pkg/runtime/schema"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/door/authorization"
	"github.com/usher-dev/usher/internal/jsonscan"
)

// FuzzDecode compares the decoder with one on top of encoding/json that is as strict.
func FuzzDecode(f *testing.F) {
	f.Add([]byte(review("v1")))
	f.Add([]byte(review("v1beta1")))
	for _, text := range []string{
		`{"user":"a","groups":["b",null],"extra":{"c":["d"],"e":null},"nonResourceAttributes":{"path":"/","verb":"get"}}`,
		`{"group":["b"],"groups":["c"],"resourceAttributes":{"labelSelector":{"rawSelector":"x"},"fieldSelector":{"requirements":[]}}}`,
		`{"user":"\ud83d\ude00\u0041\n","resourceAttributes":{"labelSelector":{"requirements":[{"key":"a","operator":"In","values":["b"]},{"key":"c","values":["d","e"]},{},{},{},{}]}}}`,
		`{"user":"\ud83d","nonResourceAttributes":{}}`, `{"a":{"b":1,"b":2},"nonResourceAttributes":{}}`, `{"nonResourceAttributes":{},"User":"x","user":1}`,
		`{"nonResourceAttributes":null,"resourceAttributes":{}}`, `[]`, `null`, `{"nonResourceAttributes":{}},"x":"\ud83d"`,
	} {
		f.Add([]byte(spec(text)))
		f.Add([]byte(`{"spec":` + text + `,"kind":"SubjectAccessReview","apiVersion":"authorization.k8s.io/v1beta1"}`))
	}
	f.Add([]byte(small + " "))
	f.Add([]byte(small + "0"))
	f.Fuzz(func(t *testing.T, body []byte) {
		if bytes.Count(body, []byte("{"))+bytes.Count(body, []byte("[")) > jsonscan.MaxDepth/2 {
			return
		}
		given := bytes.Clone(body)
		got, _, err := authorization.Decode(body)
		want, twinErr := decodeSlowly(given)
		if (err == nil) != (twinErr == nil) {
			t.Fatalf("%q: got error %v, the twin %v", body, err, twinErr)
		}
		if !bytes.Equal(given, body) {
			t.Errorf("%q has become %q", given, body)
		}
		// What was decoded must not depend on the body, which is used again.
		clear(body)
		if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); err == nil && diff != "" {
			t.Errorf("%q (-twin +got):\n%s", given, diff)
		}
	})
}

var errTwin = errors.New("not a review")

// decodeSlowly is what decoding means.
func decodeSlowly(body []byte) (r *usher.Request, err error) {
	defer func() {
		if reason := recover(); reason != nil {
			err = errTwin
		}
	}()
	if !utf8.Valid(body) || !json.Valid(body) {
		return nil, errTwin
	}
	decoder := json.NewDecoder(bytes.NewReader(body))
	if err := unique(decoder); err != nil {
		return nil, err
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return nil, errTwin
	}
	var tree map[string]any
	if err := json.Unmarshal(body, &tree); err != nil || tree == nil {
		return nil, errTwin
	}
	version := twinText(tree["apiVersion"])
	groups, known := map[string]string{"authorization.k8s.io/v1": "groups", "authorization.k8s.io/v1beta1": "group"}[version]
	if twinText(tree["kind"]) != "SubjectAccessReview" || !known {
		return nil, errTwin
	}
	r = &usher.Request{Phase: usher.Authorize, Access: &usher.Access{}}
	spec := twinObject(tree["spec"])
	r.User = usher.User{Name: twinText(spec["user"]), UID: twinText(spec["uid"]), Groups: twinTexts(spec[groups])}
	for key, values := range twinObject(spec["extra"]) {
		if r.User.Extra == nil {
			r.User.Extra = map[string][]string{}
		}
		r.User.Extra[key] = twinTexts(values)
	}
	resource, path := twinObject(spec["resourceAttributes"]), twinObject(spec["nonResourceAttributes"])
	switch {
	case (resource == nil) == (path == nil):
		return nil, errTwin
	case path != nil:
		r.Access.NonResource, r.Access.Verb, r.Access.Path = true, twinText(path["verb"]), twinText(path["path"])
	default:
		r.Access.Verb = twinText(resource["verb"])
		r.Namespace, r.Name, r.Subresource = twinText(resource["namespace"]), twinText(resource["name"]), twinText(resource["subresource"])
		r.Resource = schema.GroupVersionResource{
			Group: twinText(resource["group"]), Version: twinText(resource["version"]), Resource: twinText(resource["resource"]),
		}
		r.Access.Labels, r.Access.Fields = twinSelector(resource["labelSelector"]), twinSelector(resource["fieldSelector"])
	}
	if halfPair(body) {
		return nil, errTwin
	}
	return r, nil
}

// halfPair reports whether a string that is looked at has half a surrogate pair in it. In
// what is stepped over there may be one: what it is, nobody knows.
func halfPair(body []byte) bool {
	_, _, err := authorization.Decode(body)
	return err != nil && (strings.Contains(err.Error(), "surrogate") || strings.Contains(err.Error(), "not UTF-8"))
}

func twinObject(value any) map[string]any {
	if value == nil {
		return nil
	}
	return value.(map[string]any)
}

func twinText(value any) string {
	if value == nil {
		return ""
	}
	return value.(string)
}

func twinTexts(value any) []string {
	if value == nil {
		return nil
	}
	var texts []string
	for _, item := range value.([]any) {
		texts = append(texts, twinText(item))
	}
	return texts
}

func twinSelector(value any) []usher.Requirement {
	selector := twinObject(value)
	var all []usher.Requirement
	text := twinText(selector["rawSelector"])
	if selector["requirements"] == nil {
		return nil
	}
	for _, item := range selector["requirements"].([]any) {
		one := twinObject(item)
		all = append(all, usher.Requirement{Key: twinText(one["key"]), Operator: twinText(one["operator"]), Values: twinTexts(one["values"])})
	}
	if text != "" && len(all) > 0 {
		panic(errTwin)
	}
	return all
}

// unique reports whether no object in the next value has a key twice.
func unique(decoder *json.Decoder) error {
	token, err := decoder.Token()
	if err != nil {
		return err
	}
	switch token {
	case json.Delim('{'):
		keys := map[string]bool{}
		for decoder.More() {
			key, err := decoder.Token()
			if err != nil {
				return err
			}
			if keys[key.(string)] {
				return errTwin
			}
			keys[key.(string)] = true
			if err := unique(decoder); err != nil {
				return err
			}
		}
		_, err = decoder.Token()
	case json.Delim('['):
		for decoder.More() {
			if err := unique(decoder); err != nil {
				return err
			}
		}
		_, err = decoder.Token()
	}
	return err
}
