package manifest

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
)

// MaxObjects is the largest file of objects, in bytes: all that a large cluster has of a kind.
const MaxObjects = 1 << 30

// Read returns the content of a file, or of a pipe, of at most limit bytes. It refuses devices, which may have
// no end, and to which a link in somebody's folder may lead. [Reason] is what its errors say without the file.
func Read(file string, limit int64) ([]byte, error) {
	opened, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer func() { _ = opened.Close() }()
	info, err := opened.Stat()
	if err != nil {
		return nil, err
	}
	if info.Mode()&os.ModeDevice != 0 {
		return nil, &fs.PathError{Op: "read", Path: file, Err: errors.New("it is a device, not a file")}
	}
	content, err := io.ReadAll(io.LimitReader(opened, limit+1))
	if err != nil {
		return nil, err
	}
	if int64(len(content)) > limit {
		return nil, &fs.PathError{Op: "read", Path: file, Err: fmt.Errorf("file is larger than %d MiB", limit>>20)}
	}
	return content, nil
}
