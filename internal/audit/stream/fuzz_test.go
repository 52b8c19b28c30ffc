package stream_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
	"unicode/utf8"

	"github.com/usher-dev/usher/internal/audit/stream"
)

// readers are ways in which the same bytes may arrive.
func readers(data []byte) map[string]io.Reader {
	return map[string]io.Reader{
		"at once":      bytes.NewReader(data),
		"byte by byte": iotest.OneByteReader(bytes.NewReader(data)),
		"in halves":    iotest.HalfReader(bytes.NewReader(data)),
		"with the end": iotest.DataErrReader(bytes.NewReader(data)),
	}
}

// FuzzFrames compares how a stream is split with encoding/json, for streams of objects.
func FuzzFrames(f *testing.F) {
	for _, seed := range []string{
		``, `{}`, "{}\n{}", `{"a":"}"}`, `{"a":"\""}{"b":"\\"}`, `{"a":{"b":[{},[]]}}`, `{`, `{"`, `{"\`, `}`, `{}]`, "\x00", `{"a":1}x`,
		added("a", 1) + ready(2), strings.Repeat(`{"a":[`, 50), "{} , {}", `{"é":"` + "\xff" + `"}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		var want []string
		decoder := json.NewDecoder(bytes.NewReader(data))
		valid := true
		for {
			var raw json.RawMessage
			if err := decoder.Decode(&raw); err != nil {
				valid = errors.Is(err, io.EOF)
				break
			}
			if raw[0] != '{' {
				return
			}
			want = append(want, string(raw))
		}
		for how, from := range readers(data) {
			got, err := stream.Values(from, 1<<20)
			if valid && !errors.Is(err, io.EOF) {
				t.Errorf("%s: %v", how, err)
			}
			if !valid {
				// What comes before the fault is as valid.
				got = got[:min(len(got), len(want))]
			}
			if !slices.Equal(want, got) {
				t.Errorf("%s: %q, want %q", how, got, want)
			}
		}
	})
}

// FuzzList compares how a list is split with encoding/json.
func FuzzList(f *testing.F) {
	for _, seed := range []string{list(1, "", "a", "b"), list(1, "more"), `{"items":null}`, `{"items":[]}`, `{"items":[1, "a" ,null]}`, `{"items":{}}`, `{"a":1 , "items" : [ ] , "b" : "x" }`, `[]`, `{"a"}`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		if !json.Valid(data) {
			for _, from := range readers(data) {
				_, _, _ = stream.Items(from, 1<<20)
			}
			return
		}
		var want map[string]json.RawMessage
		if json.Unmarshal(data, &want) != nil || bytes.TrimSpace(data)[0] != '{' || bytes.Contains(data, []byte(`\`)) || !utf8.Valid(data) {
			return
		}
		var items []json.RawMessage
		listed := json.Unmarshal(want["items"], &items) == nil || want["items"] == nil
		delete(want, "items")
		for how, from := range readers(data) {
			got, others, err := stream.Items(from, 1<<20)
			if (err == nil) != listed {
				t.Fatalf("%s: %v", how, err)
			}
			if !listed || bytes.Count(data, []byte(`"items"`)) > 1 {
				return
			}
			for i := range items {
				if i >= len(got) || string(items[i]) != got[i] {
					t.Errorf("%s: item %d of %d differs from %s", how, i, len(got), items[i])
				}
			}
			for key, value := range want {
				if others[key] != string(value) {
					t.Errorf("%s: %s is %s, want %s", how, key, others[key], value)
				}
			}
		}
	})
}

// FuzzFind compares what is found in an object with encoding/json.
func FuzzFind(f *testing.F) {
	for _, seed := range []string{`{"a":{"b":1}}`, `{"x":[{"a":1}],"a":{"y":"}","b":"\"}"}}`, `{"a":null}`, `{ "a" : { "b" : true } }`, `{"b":"a","a":{"b":{}}}`, `{"a":{"b"`, `{"a":"b`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		got := stream.Find(data, "a", "b")
		if !json.Valid(data) || data[0] != '{' || bytes.ContainsRune(data, '\\') || bytes.Count(data, []byte(`"a"`)) > 1 || bytes.Count(data, []byte(`"b"`)) > 1 {
			return
		}
		var outer struct{ A json.RawMessage }
		var inner map[string]json.RawMessage
		if json.Unmarshal(data, &outer) != nil || json.Unmarshal(outer.A, &inner) != nil {
			return
		}
		if bytes.Contains(data, []byte(`"A"`)) {
			return
		}
		if string(inner["b"]) != string(got) {
			t.Errorf("found %s, want %s", got, inner["b"])
		}
	})
}
