package cli

import (
	"slices"
	"strings"

	"github.com/spf13/pflag"
)

// LegacyFlags are flags of the original that have no meaning here, so that a command line
// which has them still works. They are not shown in the help.
type LegacyFlags struct {
	Set []string
}

// klogFlags are those of the logging library, and whether they stand without a value.
var klogFlags = map[string]bool{
	"v": false, "vmodule": false, "logtostderr": true, "alsologtostderr": true, "stderrthreshold": false,
	"alsologtostderrthreshold": false, "legacy-stderr-threshold-behavior": true, "log-dir": false, "log-file": false,
	"log-file-max-size": false, "log-flush-frequency": false, "log-backtrace-at": false, "add-dir-header": true,
	"skip-headers": true, "skip-log-headers": true, "one-output": true,
}

// Register adds them to flags, apart from those that mean something there.
func (f *LegacyFlags) Register(flags *pflag.FlagSet, meant ...string) {
	for name, alone := range klogFlags {
		if slices.Contains(meant, name) {
			continue
		}
		shorthand := ""
		if name == "v" {
			shorthand = name
		}
		flag := flags.VarPF(&ignored{name: name, flags: f}, name, shorthand, "ignored")
		flag.Hidden = true
		if alone {
			flag.NoOptDefVal = "true"
		}
	}
	flags.SetNormalizeFunc(func(_ *pflag.FlagSet, name string) pflag.NormalizedName {
		if name == "secure-port" {
			name = "port"
		}
		return pflag.NormalizedName(strings.ReplaceAll(name, "_", "-"))
	})
}

// An ignored is a flag that may have any value.
type ignored struct {
	name  string
	flags *LegacyFlags
}

func (i *ignored) String() string { return "" }

func (i *ignored) Type() string { return "string" }

func (i *ignored) Set(string) error {
	i.flags.Set = append(i.flags.Set, "--"+i.name)
	return nil
}
