package worker

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"
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

// encodeFrame returns a frame as it is sent.
func encodeFrame(f frame) []byte {
	b := make([]byte, headerSize, headerSize+len(f.payload))
	binary.BigEndian.PutUint32(b, uint32(len(f.payload)))
	binary.BigEndian.PutUint64(b[4:], f.id)
	b[12] = byte(f.kind)
	return append(b, f.payload...)
}

// frames reads frames. A read that was interrupted goes on with the next call.
type frames struct {
	r *bufio.Reader
	// begun is the frame of which the header was read; length is that of its payload.
	begun  bool
	frame  frame
	length int
}

func newFrames(r io.Reader) *frames { return &frames{r: bufio.NewReader(r)} }

// piece is how much memory is allocated before more of a payload has arrived: the length may be wrong.
const piece = 64 << 10

// next returns the next frame, whose payload has at most limit bytes. Its error is io.EOF if there is no further
// frame.
func (s *frames) next(limit int) (frame, error) {
	if !s.begun {
		header, err := s.r.Peek(headerSize)
		if err != nil {
			if len(header) > 0 {
				err = whole(err)
			}
			return frame{}, err
		}
		length := binary.BigEndian.Uint32(header)
		if int64(length) > int64(limit) {
			return frame{}, fmt.Errorf("a frame of %d bytes: at most %d are allowed", length, limit)
		}
		s.begun, s.length = true, int(length)
		s.frame = frame{id: binary.BigEndian.Uint64(header[4:]), kind: kind(header[12]), payload: make([]byte, 0, min(int(length), piece))}
		_, _ = s.r.Discard(headerSize)
	}
	for len(s.frame.payload) < s.length {
		have := len(s.frame.payload)
		to := slices.Grow(s.frame.payload, min(s.length-have, max(have, piece)))
		n, err := s.r.Read(to[have:min(cap(to), s.length)])
		s.frame.payload = to[:have+n]
		if err != nil {
			return frame{}, whole(err)
		}
	}
	f := s.frame
	s.begun, s.frame = false, frame{}
	return f, nil
}

// whole returns the error for a frame that ends early.
func whole(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}
