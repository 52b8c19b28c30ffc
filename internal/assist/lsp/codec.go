package lsp

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/usher-dev/usher/internal/printable"
)

const (
	// largestMessage is the size of a message that is read, and largestHeader that of all its headers.
	largestMessage = 16 << 20
	largestHeader  = 4 << 10
)

// A codec reads and writes messages, each with a header that says how long it is.
type codec struct{}

// WriteObject implements [jsonrpc2.ObjectCodec].
func (codec) WriteObject(w io.Writer, object any) error {
	text, err := json.Marshal(object)
	if err != nil {
		return err
	}
	text = printable.JSON(text)
	if _, err := fmt.Fprintf(w, "Content-Length: %d\r\n\r\n", len(text)); err != nil {
		return err
	}
	_, err = w.Write(text)
	return err
}

// ReadObject implements [jsonrpc2.ObjectCodec]. It does not hold memory for what was announced and is not sent.
func (codec) ReadObject(r *bufio.Reader, object any) error {
	size, err := readHeader(r)
	if err != nil {
		return err
	}
	text, err := io.ReadAll(io.LimitReader(r, int64(size)))
	if err != nil {
		return fmt.Errorf("read message: %w", err)
	}
	if len(text) < size {
		return fmt.Errorf("read message: it ends after %d of %d bytes", len(text), size)
	}
	if err := json.Unmarshal(text, object); err != nil {
		return fmt.Errorf("read message: %w", err)
	}
	return nil
}

// readHeader returns how long the message is that follows. The error is io.EOF at the end.
func readHeader(r *bufio.Reader) (int, error) {
	size, read := -1, 0
	for {
		var line []byte
		for {
			c, err := r.ReadByte()
			if errors.Is(err, io.EOF) && read > 0 {
				return 0, errors.New("read header: it is not complete")
			}
			if err != nil {
				return 0, err
			}
			if read++; read > largestHeader {
				return 0, fmt.Errorf("read header: it is longer than %d bytes", largestHeader)
			}
			if line = append(line, c); c == '\n' {
				break
			}
		}
		text := strings.TrimRight(string(line), "\r\n")
		if text == "" {
			break
		}
		name, value, ok := strings.Cut(text, ":")
		if !ok {
			return 0, errors.New("read header: a line has no colon: expected Content-Length: and the length in bytes")
		}
		if strings.EqualFold(strings.TrimSpace(name), "Content-Length") {
			length, err := strconv.ParseUint(strings.TrimSpace(value), 10, 63)
			if err != nil || length > largestMessage {
				return 0, fmt.Errorf("read header: the Content-Length is not a number up to %d", largestMessage)
			}
			size = int(length)
		}
	}
	if size < 0 {
		return 0, errors.New("read header: there is no Content-Length")
	}
	return size, nil
}
