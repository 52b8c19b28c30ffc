// Supply makes what a release has besides its archives, from what goreleaser has left in dist and without a daemon:
// the image and the chart as OCI layouts, which any tool can copy to a registry, the manifest of the krew plugin, and a
// statement of provenance about all of them. It publishes and signs nothing.
//
//	go run ./tools/supply -created 2026-01-01T00:00:00Z -chart dist/usher-0.1.0.tgz
package main

import (
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"
)

func main() {
	if err := run(os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(args []string, out io.Writer) error {
	flags := flag.NewFlagSet("supply", flag.ContinueOnError)
	root := flags.String("root", ".", "folder of the repository, with dist")
	chart := flags.String("chart", "", "packed chart, relative to the root")
	created := flags.String("created", "", "time of the commit, in RFC 3339: images of one commit have one digest")
	if err := flags.Parse(args); err != nil {
		return err
	}
	at, err := time.Parse(time.RFC3339, *created)
	if err != nil {
		return fmt.Errorf("read -created: %w", err)
	}
	release, err := read(*root)
	if err != nil {
		return err
	}
	dist := filepath.Join(*root, "dist")
	subjects, err := release.files()
	if err != nil {
		return err
	}
	image, err := release.image(filepath.Join(dist, "image"), at.UTC())
	if err != nil {
		return fmt.Errorf("make the image: %w", err)
	}
	subjects = append(subjects, subject{"ghcr.io/usher-dev/usher", image})
	if *chart != "" {
		of, err := pack(filepath.Join(*root, *chart), filepath.Join(dist, "chart"))
		if err != nil {
			return fmt.Errorf("make the layout of the chart: %w", err)
		}
		subjects = append(subjects, subject{"ghcr.io/usher-dev/charts/usher", of})
	}
	if err := release.krew(filepath.Join(dist, "krew")); err != nil {
		return fmt.Errorf("write the krew manifest: %w", err)
	}
	if err := release.provenance(filepath.Join(dist, "provenance.intoto.json"), subjects); err != nil {
		return fmt.Errorf("write the provenance: %w", err)
	}
	for _, s := range subjects {
		fmt.Fprintf(out, "%s  %s\n", s.digest, s.name)
	}
	return nil
}
