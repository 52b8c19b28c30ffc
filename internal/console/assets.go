package console

import (
	"bytes"
	"compress/gzip"
	"crypto/rand"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"path"
	"strings"
)

// The page is built from web/console.
//
//go:embed assets
var embedded embed.FS

// An asset is a compressed file of the page.
type asset struct {
	compressed []byte
	kind, etag string
}

// assets are the files of the page, by their names without .gz.
type assets struct {
	index string
	files map[string]asset
}

func newAssets() (*assets, error) {
	// What the machine knows of types differs.
	kinds := map[string]string{
		".js": "text/javascript; charset=utf-8", ".css": "text/css; charset=utf-8", ".svg": "image/svg+xml", ".txt": "text/plain; charset=utf-8",
	}
	all := &assets{files: map[string]asset{}}
	names, err := fs.Glob(embedded, "assets/*")
	if err != nil {
		return nil, fmt.Errorf("read the page: %w", err)
	}
	for _, file := range names {
		content, err := embedded.ReadFile(file)
		if err != nil {
			return nil, fmt.Errorf("read the page: %w", err)
		}
		name, compressed := strings.CutSuffix(path.Base(file), ".gz")
		switch {
		case name == "index.html":
			all.index = string(content)
		case compressed:
			sum := sha256.Sum256(content)
			all.files[name] = asset{content, kinds[path.Ext(name)], `"` + hex.EncodeToString(sum[:16]) + `"`}
		}
	}
	return all, nil
}

// page writes the page. Styles that its editor makes have a nonce.
func (a *assets) page(w http.ResponseWriter) {
	nonce := rand.Text()
	w.Header().Set("Content-Security-Policy", policyFor("'self' 'nonce-"+nonce+"'"))
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	_, _ = io.WriteString(w, strings.ReplaceAll(a.index, "{{nonce}}", nonce))
}

// serve writes a file. It needs no cookie: it is the same for everyone.
func (a *assets) serve(w http.ResponseWriter, r *http.Request) {
	file, ok := a.files[r.PathValue("name")]
	if !ok {
		refuse(w, &Error{http.StatusNotFound, "the page has no such file"})
		return
	}
	header := w.Header()
	header.Set("Content-Type", file.kind)
	header.Set("Cache-Control", "no-cache")
	header.Set("ETag", file.etag)
	header.Set("Vary", "Accept-Encoding")
	if strings.Contains(r.Header.Get("If-None-Match"), file.etag) {
		w.WriteHeader(http.StatusNotModified)
		return
	}
	if strings.Contains(r.Header.Get("Accept-Encoding"), "gzip") {
		header.Set("Content-Encoding", "gzip")
		_, _ = w.Write(file.compressed)
		return
	}
	plain, err := gzip.NewReader(bytes.NewReader(file.compressed))
	if err != nil {
		refuse(w, err)
		return
	}
	// It is a file of this program.
	_, _ = io.Copy(w, plain) //nolint:gosec // G110: the file is embedded
}
