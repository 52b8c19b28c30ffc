package jsonscan_test

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/usher-dev/usher/internal/jsonscan"
)

// scan steps over data, which is to be one JSON value.
func scan(data []byte) error {
	s := &jsonscan.Scanner{}
	s.Reset(data, "")
	if _, err := s.Value(); err != nil {
		return err
	}
	return s.End()
}

// FuzzScan compares the scanner with encoding/json.
func FuzzScan(f *testing.F) {
	for _, seed := range []string{
		``, ` `, `0`, `-0.5E-10`, `01`, `1.`, `.5`, `1e`, `-`, `+1`, `true`, `tru`, `nullx`, `"\ud83d\/"`, `"\u12g4"`, "\"\t\"", `"`, `"\"`,
		`{}`, `[]`, `{"a":1,}`, `[1,]`, `{"a":[{},[],""]}`, `{"a"}`, `{1:2}`, `[}`, `{]`, `[1 2]`, `{"a":1 "b":2}`, ` { "a" : [ 1 , null ] } `,
		"\x00", "[\x00]", "1\x00", `"` + "\xff" + `"`, strings.Repeat("[", 1001),
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		if err := scan(data); (err == nil) != json.Valid(data) {
			if bytes.Count(data, []byte("["))+bytes.Count(data, []byte("{")) > jsonscan.MaxDepth {
				return
			}
			t.Errorf("%q: %v, but valid is %v", data, err, json.Valid(data))
		}
	})
}

// FuzzString compares what a string says with encoding/json.
func FuzzString(f *testing.F) {
	for _, seed := range []string{
		`""`, `"a"`, ` "\u0041\n\"\\\/\b\f\r\t"`, `"\ud83d\ude00"`, `"\ud83d"`, `"\ud83d\u0041"`, `"\ude00\ud83d"`, `"\ud83d\ud83d\ude00"`, `"\ufffd"`, `"�"`, "\"\xff\xc3\"", `"é\u00e9"`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		var want string
		if data = bytes.TrimSpace(data); !bytes.HasPrefix(data, []byte{'"'}) || json.Unmarshal(data, &want) != nil {
			return
		}
		for _, shared := range []string{"", string(data)} {
			s := &jsonscan.Scanner{}
			s.Reset(data, shared)
			var got string
			if err := s.String(&got); err != nil || got != want {
				t.Errorf("%q says %q, %v; want %q", data, got, err, want)
			}
			if !utf8.Valid(data) && !s.Replaced() {
				t.Errorf("%q: nothing is said to be replaced", data)
			}
			if !strings.ContainsRune(want, utf8.RuneError) && s.Replaced() {
				t.Errorf("%q: something is said to be replaced", data)
			}
		}
	})
}
