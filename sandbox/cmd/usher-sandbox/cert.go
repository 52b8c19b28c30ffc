package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/usher-dev/usher/sandbox/internal/cluster"
	"github.com/usher-dev/usher/sandbox/internal/pki"
)

func certCommand() *cobra.Command {
	var dir, out string
	command := &cobra.Command{
		Use:   "cert SERVICE.NAMESPACE",
		Short: "issue a serving certificate for a webhook, signed by the sandbox's CA",
		Long: `cert writes tls.crt, tls.key and ca.crt for a webhook that the API server calls as
SERVICE.NAMESPACE.svc. Put the base64 of ca.crt into clientConfig.caBundle.`,
		Example: `  usher-sandbox cert usher.usher-system --dir ~/.cache/sandbox --out certs`,
		Args:    cobra.ExactArgs(1),
		RunE: func(command *cobra.Command, args []string) error {
			if strings.Count(args[0], ".") != 1 {
				return fmt.Errorf("%q is not SERVICE.NAMESPACE", args[0])
			}
			state, err := cluster.Load(dir)
			if err != nil {
				return fmt.Errorf("%w: name the folder of a sandbox with --dir", err)
			}
			certificates, err := pki.Ensure(state.PKI)
			if err != nil {
				return err
			}
			pair, err := certificates.Server(args[0]+".svc", args[0], args[0]+".svc.cluster.local")
			if err != nil {
				return err
			}
			if err := os.MkdirAll(out, 0o700); err != nil {
				return fmt.Errorf("make folder: %w", err)
			}
			for name, text := range map[string][]byte{"tls.crt": pair.Cert, "tls.key": pair.Key, "ca.crt": certificates.CA()} {
				if err := os.WriteFile(filepath.Join(out, name), text, 0o600); err != nil {
					return fmt.Errorf("write certificate: %w", err)
				}
			}
			fmt.Fprintf(command.OutOrStdout(), "wrote %s/tls.crt, tls.key and ca.crt for %s.svc\n", out, args[0])
			return nil
		},
	}
	command.Flags().StringVar(&dir, "dir", "", "folder of the sandbox (required)")
	command.Flags().StringVar(&out, "out", ".", "folder to write to")
	_ = command.MarkFlagRequired("dir")
	return command
}
