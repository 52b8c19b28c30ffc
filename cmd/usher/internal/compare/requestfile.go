package compare

import (
	"bufio"
	"os"

	"github.com/usher-dev/usher/cmd/internal/cli"
	"github.com/usher-dev/usher/cmd/usher/internal/facts"
	"github.com/usher-dev/usher/cmd/usher/internal/objects"
	"github.com/usher-dev/usher/internal/impact/auditlog"
	"github.com/usher-dev/usher/internal/manifest"
)

// A requestFile is a file that may have requests.
type requestFile struct {
	name string
	// inFolder says that the file was found in a folder, where other files may be, too.
	inFolder bool
	// kept is what can be read once, such as a pipe, if it has been opened.
	kept *openFile
}

// hasCases reports whether the file is one of cases, which is in a file that can be read again.
func (f *requestFile) hasCases() bool { return f.kept == nil && manifest.HasCases(f.name) }

// An openFile is the content of a requestFile.
type openFile struct {
	buffered *bufio.Reader
	close    func()
	// parsed says that the objects have been read.
	parsed bool
	inputs []objects.Input
	err    error
}

// open opens the file, or returns what was kept of it.
func (f *requestFile) open(s cli.Streams) (*openFile, error) {
	switch {
	case f.kept != nil:
		return f.kept, nil
	case f.name == "-":
		f.kept = &openFile{buffered: bufio.NewReaderSize(s.In, 1<<16), close: func() {}}
		return f.kept, nil
	}
	opened, err := os.Open(f.name)
	if err != nil {
		return nil, err
	}
	o := &openFile{buffered: bufio.NewReaderSize(opened, 1<<16), close: func() { _ = opened.Close() }}
	if about, err := opened.Stat(); err == nil && !about.Mode().IsRegular() {
		f.kept = o
	}
	return o, nil
}

func (o *openFile) isLog() bool { return !o.parsed && auditlog.Recognises(o.buffered) }

// objects returns what is in the file, with [objects.ErrNoObject] if it has other documents.
func (o *openFile) objects(name string) ([]objects.Input, error) {
	if !o.parsed {
		o.parsed = true
		o.inputs, o.err = objects.From(name, o.buffered)
	}
	return o.inputs, o.err
}

// knowObjects says that the objects of files exist. Reading the files once more reports what is wrong with them:
// only what can be read once is kept.
func (c *comparing) knowObjects(s cli.Streams, files []requestFile) error {
	if c.from != nil {
		return nil
	}
	var known []map[string]any
	for i := range files {
		o, err := files[i].open(s)
		if err != nil {
			return err
		}
		if !o.isLog() && !files[i].hasCases() {
			inputs, _ := o.objects(files[i].name)
			known = append(known, objects.Trees(inputs)...)
		}
		if files[i].kept == nil {
			o.close()
		}
	}
	stores := make([]*facts.Store, len(c.workers))
	for i := range c.workers {
		stores[i] = c.workers[i].scene.store
	}
	facts.Know(known, c.namespace, stores...)
	return nil
}
