package manifest

import (
	"fmt"
	"io"
	"os"
)

// Read returns the content of a file, or of a pipe, of at most limit bytes. It refuses devices, which may have
// no end, and to which a link in somebody's folder may lead.
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
		return nil, fmt.Errorf("%s is a device, not a file", file)
	}
	content, err := io.ReadAll(io.LimitReader(opened, limit+1))
	if err != nil {
		return nil, err
	}
	if int64(len(content)) > limit {
		return nil, fmt.Errorf("%s is larger than %d MiB", file, limit>>20)
	}
	return content, nil
}
