package worker

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

// A frame is a message on the pipes: four bytes of length, eight of the id of the request, one of
// the kind, and the payload.
type frame struct {
	id      uint64
	kind    kind
	payload []byte
}

// Requests have the kinds of [Kind], which differ from these.
type kind byte

const (
	// hello is the first frame of a worker, which says that it is ready.
	hello kind = 'h'
	// answer is the response to the request with the same id, and so is lastAnswer, after which the
	// worker must be replaced.
	answer     kind = 'a'
	lastAnswer kind = 'l'
)

const headerSize = 4 + 8 + 1

// writeFrame writes a frame in one call.
func writeFrame(w io.Writer, f frame) error {
	b := make([]byte, headerSize, headerSize+len(f.payload))
	binary.BigEndian.PutUint32(b, uint32(len(f.payload)))
	binary.BigEndian.PutUint64(b[4:], f.id)
	b[12] = byte(f.kind)
	_, err := w.Write(append(b, f.payload...))
	return err
}

// readFrame reads a frame whose payload has at most limit bytes. Its error is io.EOF if there is
// no further frame.
func readFrame(r io.Reader, limit int) (frame, error) {
	var header [headerSize]byte
	if _, err := io.ReadFull(r, header[:]); err != nil {
		return frame{}, err
	}
	length := binary.BigEndian.Uint32(header[:])
	if int64(length) > int64(limit) {
		return frame{}, fmt.Errorf("a frame of %d bytes: at most %d are allowed", length, limit)
	}
	f := frame{id: binary.BigEndian.Uint64(header[4:]), kind: kind(header[12])}
	if length <= 64<<10 {
		f.payload = make([]byte, length)
		_, err := io.ReadFull(r, f.payload)
		return f, whole(err)
	}
	// Memory is allocated as the bytes arrive, because the length may be wrong.
	var b bytes.Buffer
	_, err := io.CopyN(&b, r, int64(length))
	f.payload = b.Bytes()
	return f, whole(err)
}

// whole returns the error for a frame that ends early.
func whole(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}
