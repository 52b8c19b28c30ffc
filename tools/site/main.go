// Site makes a web site from the documents as they are in the repository: those that the README and the index of
// docs link, and those that these link. It fails, with all problems at once, if a link or an anchor leads nowhere.
// What it writes are files for any web server. Pages load nothing from other origins, and their search runs in the
// browser.
//
//	go run ./tools/site -out bin/site
package main

import (
	"flag"
	"fmt"
	"io"
	"os"
)

func main() {
	if err := run(os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(args []string, out io.Writer) error {
	flags := flag.NewFlagSet("site", flag.ContinueOnError)
	from := flags.String("root", ".", "folder of the repository")
	to := flags.String("out", "", "folder to write the site to")
	source := flags.String("source", "https://github.com/usher-dev/usher", "where the repository is shown: links to what is no document lead there")
	if err := flags.Parse(args); err != nil {
		return err
	}
	root, err := os.OpenRoot(*from)
	if err != nil {
		return err
	}
	defer root.Close() //nolint:errcheck // nothing was written
	s, err := read(root, *source)
	if err != nil {
		return err
	}
	if err := s.write(*to); err != nil {
		return fmt.Errorf("write the site: %w", err)
	}
	_, err = fmt.Fprintf(out, "%s: %d pages\n", *to, len(s.pages))
	return err
}
