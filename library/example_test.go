package library_test

import (
	"fmt"

	"github.com/usher-dev/usher/library"
)

// A policy of a pack, as it is installed.
func ExampleSelect() {
	packs, err := library.Packs()
	if err != nil {
		fmt.Println(err)
		return
	}
	policies, err := library.Select(packs, []string{"jobs"})
	if err != nil {
		fmt.Println(err)
		return
	}
	text, err := policies[0].Manifest(library.Settings{Action: "Audit"})
	fmt.Println(policies[0].Pack, len(text) > 0, err)
	// Output: best-practices true <nil>
}
