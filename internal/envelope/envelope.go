// Package envelope reads the HTTP requests that carry reviews: the method, the headers, and
// a body of bounded size. The webhook doors share it, so that they refuse the same.
package envelope

import (
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strconv"
	"time"

	"github.com/usher-dev/usher/internal/limit"
)

const (
	contentType = "application/json"
	// Prefix is how much is read of a body whose declared length is too large, in bytes. The
	// identity of a review comes first; only objects are large.
	Prefix = 64 << 10
	// first is the initial buffer for a body. A header can announce any length.
	first = 16 << 10
	// retryAfter is the Retry-After header. API servers follow it, even if their deadline only
	// allows one retry. It is never 0, which they take for immediately.
	retryAfter = time.Second
)

// A Refusal is the HTTP error for a request that is not answered with a review.
type Refusal struct {
	Code int
	Text string
}

// Error implements error.
func (r *Refusal) Error() string { return r.Text }

// Refuse returns a refusal.
func Refuse(code int, format string, args ...any) *Refusal {
	return &Refusal{Code: code, Text: fmt.Sprintf(format, args...)}
}

// Write answers with the refusal that err is, and returns its status: 500 for other errors.
func Write(w http.ResponseWriter, err error) (code int) {
	code = http.StatusInternalServerError
	if refusal := (*Refusal)(nil); errors.As(err, &refusal) {
		code = refusal.Code
	}
	switch code {
	case http.StatusMethodNotAllowed:
		w.Header().Set("Allow", http.MethodPost)
	case http.StatusTooManyRequests:
		w.Header().Set("Retry-After", strconv.Itoa(int(retryAfter/time.Second)))
	}
	http.Error(w, err.Error(), code)
	return code
}

// How long a caller may take to read an answer: a while, and a second for so many bytes.
const (
	answerWindow = 10 * time.Second
	answerPace   = 32 << 10
	// buffered is the size of responses that are sent without a reader.
	buffered = 16 << 10
)

// Send answers with JSON.
func Send(w http.ResponseWriter, answer []byte) {
	if len(answer) > buffered {
		deadline := time.Now().Add(answerWindow + time.Duration(len(answer)/answerPace)*time.Second)
		_ = http.NewResponseController(w).SetWriteDeadline(deadline)
	}
	w.Header().Set("Content-Type", contentType)
	// Otherwise a long answer is sent in chunks.
	w.Header().Set("Content-Length", strconv.Itoa(len(answer)))
	// If this fails, the caller has disconnected.
	_, _ = w.Write(answer)
}

// Check refuses what cannot be a review by its method and headers.
func Check(r *http.Request) error {
	if r.Method != http.MethodPost {
		return Refuse(http.StatusMethodNotAllowed, "method %s is not allowed: send reviews with POST", r.Method)
	}
	if header := r.Header.Get("Content-Type"); !isJSON(header) {
		return Refuse(http.StatusUnsupportedMediaType, "Content-Type is %q: expected application/json", header)
	}
	if encoding := r.Header.Get("Content-Encoding"); encoding != "" && encoding != "identity" {
		return Refuse(http.StatusUnsupportedMediaType, "Content-Encoding is %q: expected a body without encoding", encoding)
	}
	return nil
}

func isJSON(header string) bool {
	if header == contentType {
		return true
	}
	media, _, err := mime.ParseMediaType(header)
	return err == nil && media == contentType
}

// Read appends the body to buffer, which may be nil, and returns it. One that is larger than most
// bytes, or takes more memory than a request may, is rejected with the status 413, and its
// beginning is returned. Review names the body in errors.
func Read(r *http.Request, most int64, buffer []byte, review string) ([]byte, error) {
	if r.ContentLength > most {
		body, err := io.ReadAll(io.LimitReader(r.Body, Prefix))
		if err != nil {
			return body, Failure(err)
		}
		return body, tooLarge(most)
	}
	body, err := read(r, most, buffer)
	switch {
	case err != nil:
		return body[:min(len(body), Prefix)], err
	case len(body) == 0:
		return nil, Refuse(http.StatusBadRequest, "body is empty: expected %s", review)
	}
	return body, nil
}

func read(r *http.Request, most int64, buffer []byte) ([]byte, error) {
	if cap(buffer) == 0 {
		length := r.ContentLength
		if length < 0 {
			length = first
		}
		buffer = make([]byte, 0, min(max(length+1, 512), first))
	}
	for {
		n, err := r.Body.Read(buffer[len(buffer):cap(buffer)])
		buffer = buffer[:len(buffer)+n]
		switch {
		case int64(len(buffer)) > most:
			return buffer, tooLarge(most)
		case err == io.EOF:
			return buffer, nil
		case err != nil:
			return buffer, Failure(err)
		case len(buffer) == cap(buffer):
			buffer = grow(buffer, r.ContentLength, most)
		}
	}
}

// grow doubles a buffer, up to the limit.
func grow(buffer []byte, length, most int64) []byte {
	size := min(2*int64(cap(buffer)), most+1)
	if length >= int64(len(buffer)) {
		size = min(size, length+1)
	}
	grown := make([]byte, len(buffer), size)
	copy(grown, buffer)
	return grown
}

func tooLarge(most int64) *Refusal {
	return Refuse(http.StatusRequestEntityTooLarge, "body is larger than %d bytes", most)
}

// Failure returns the response to an error while reading a body or reserving memory for it.
func Failure(err error) *Refusal {
	switch {
	case errors.Is(err, limit.ErrOverloaded):
		return Refuse(http.StatusTooManyRequests, "%v", limit.ErrOverloaded)
	case errors.Is(err, limit.ErrTooLarge):
		return Refuse(http.StatusRequestEntityTooLarge, "%v", limit.ErrTooLarge)
	case errors.Is(err, limit.ErrSlow):
		return Refuse(http.StatusRequestTimeout, "%v", limit.ErrSlow)
	}
	return Refuse(http.StatusBadRequest, "read body: %v", err)
}
