package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/spf13/cobra"
)

func assetsCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "assets DIR",
		Short: "make the folder of binaries that controller-runtime's envtest expects",
		Long: `assets links kube-apiserver and etcd in DIR to this binary, which acts as either, and kubectl
to the one on the PATH, if any.`,
		Example: `  usher-sandbox assets bin/envtest
  KUBEBUILDER_ASSETS=$PWD/bin/envtest go test ./...`,
		Args: cobra.ExactArgs(1),
		RunE: func(command *cobra.Command, args []string) error {
			self, err := os.Executable()
			if err != nil {
				return fmt.Errorf("find this binary: %w", err)
			}
			if err := os.MkdirAll(args[0], 0o755); err != nil {
				return fmt.Errorf("make folder: %w", err)
			}
			links := map[string]string{"kube-apiserver": self, "etcd": self}
			if kubectl, err := exec.LookPath("kubectl"); err == nil {
				links["kubectl"] = kubectl
			}
			for name, target := range links {
				link := filepath.Join(args[0], name)
				if err := os.Remove(link); err != nil && !errors.Is(err, fs.ErrNotExist) {
					return fmt.Errorf("replace %s: %w", link, err)
				}
				if err := os.Symlink(target, link); err != nil {
					return fmt.Errorf("link %s: %w", name, err)
				}
			}
			fmt.Fprintf(command.OutOrStdout(), "export KUBEBUILDER_ASSETS=%s\n", args[0])
			return nil
		},
	}
}
