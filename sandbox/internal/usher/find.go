package usher

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// FindBinary returns the path of usher: the given one, $USHER_BIN, bin/usher below the working
// folder or beside this program, or that on the PATH.
func FindBinary(given string) (string, error) {
	if given == "" {
		given = os.Getenv("USHER_BIN")
	}
	if given != "" {
		if _, err := os.Stat(given); err != nil { //nolint:gosec // The user names the program.
			return "", fmt.Errorf("find usher: %w", err)
		}
		return filepath.Abs(given)
	}
	for _, path := range append(besides("usher"), filepath.Join("bin", "usher")) {
		if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() {
			return filepath.Abs(path)
		}
	}
	path, err := exec.LookPath("usher")
	if err != nil {
		return "", errors.New("find usher: it is neither at bin/usher nor on the PATH: name it with --usher-bin or $USHER_BIN")
	}
	return filepath.Abs(path)
}

// FindCRDs returns the folder of the CRDs: the given one, or deploy/crds below the working folder
// or beside the folder of this program or of usher.
func FindCRDs(given, binary string) (string, error) {
	candidates := append(besides("../deploy/crds"),
		filepath.Join("deploy", "crds"), filepath.Join(filepath.Dir(binary), "..", "deploy", "crds"))
	if given != "" {
		candidates = []string{given}
	}
	for _, dir := range candidates {
		if info, err := os.Stat(dir); err == nil && info.IsDir() {
			return dir, nil
		}
	}
	return "", fmt.Errorf("find CRDs of usher: no folder %s: name it with --crds", candidates[len(candidates)-1])
}

// besides returns the locations of a path relative to the folder of this program.
func besides(path string) []string {
	self, err := os.Executable()
	if err != nil {
		return nil
	}
	return []string{filepath.Join(filepath.Dir(self), path)}
}
