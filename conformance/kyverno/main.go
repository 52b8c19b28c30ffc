// Command kyverno runs Kyverno's own engine on the policies and objects of a corpus, and records its answers.
//
//	go run . ../../internal/convert/kyverno/testdata/corpus [NAME...]
package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/usher-dev/usher/internal/convert/kyverno/corpus"
)

func main() {
	if len(os.Args) < 2 {
		fmt.Fprintln(os.Stderr, "usage: kyverno FOLDER [NAME...]")
		os.Exit(2)
	}
	if err := run(os.Args[1], os.Args[2:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(folder string, names []string) error {
	files, err := corpus.Load(folder)
	if err != nil {
		return err
	}
	changed := 0
	for i := range files {
		f := &files[i]
		if len(names) > 0 && !slices.Contains(names, f.Name) {
			continue
		}
		for n := range f.Rows {
			if err := answer(f, &f.Rows[n]); err != nil {
				return fmt.Errorf("%s, row %q: %w", f.Name, f.Rows[n].Name, err)
			}
		}
		path := filepath.Join(folder, f.Name+".yaml")
		before, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		after, err := corpus.Record(before, f.Rows)
		if err != nil {
			return fmt.Errorf("%s: %w", f.Name, err)
		}
		if string(before) == string(after) {
			continue
		}
		changed++
		fmt.Println(f.Name, "changed")
		if err := os.WriteFile(path, after, 0o644); err != nil {
			return err
		}
	}
	fmt.Printf("%d files, %d changed\n", len(files), changed)
	return nil
}
