package main

import (
	"fmt"

	"github.com/spf13/cobra"
)

// moved returns a command that is part of usher-samples now. It says so for one release, with any
// arguments.
func moved(name string) *cobra.Command {
	return &cobra.Command{
		Use:                name,
		Short:              "Moved to usher-samples " + name,
		Hidden:             true,
		DisableFlagParsing: true,
		RunE: func(*cobra.Command, []string) error {
			return fmt.Errorf("usher %s has moved to a binary of its own, with the same flags and paths: run usher-samples %s; "+
				"to build it, run go install github.com/usher-dev/usher/cmd/usher-samples@latest", name, name)
		},
	}
}
