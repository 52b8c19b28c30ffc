package clitest

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// Reference compares the pages of a folder with the commands, one page for each command of root with those below it.
// With RECORD set it writes them.
func Reference(t *testing.T, root *cobra.Command, folder string) {
	t.Helper()
	pages := map[string]string{}
	var index strings.Builder
	fmt.Fprintf(&index, "# Commands of %s\n\n<!-- Written by make references. Do not edit. -->\n\n| command | |\n|---|---|\n", root.Name())
	for _, command := range root.Commands() {
		if command.Hidden || command.Name() == "help" {
			continue
		}
		var page strings.Builder
		fmt.Fprintf(&page, "# %s\n\n<!-- Written by make references. Do not edit. -->\n", command.CommandPath())
		for _, c := range Commands(command) {
			describe(&page, c, c != command)
		}
		pages[command.Name()+".md"] = page.String()
		fmt.Fprintf(&index, "| [`%s`](%s.md) | %s |\n", command.CommandPath(), command.Name(), command.Short)
	}
	pages["README.md"] = index.String()
	if os.Getenv("RECORD") != "" {
		record(t, folder, pages)
	}
	files, err := filepath.Glob(filepath.Join(folder, "*.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if page := pages[filepath.Base(file)]; page != string(text) {
			t.Errorf("%s is not up to date: run make references", file)
		}
		delete(pages, filepath.Base(file))
	}
	for name := range pages {
		t.Errorf("%s is missing: run make references", name)
	}
}

func record(t *testing.T, folder string, pages map[string]string) {
	t.Helper()
	if err := os.RemoveAll(folder); err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(folder, 0o755); err != nil {
		t.Fatal(err)
	}
	for name, page := range pages {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(page), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

func describe(page *strings.Builder, c *cobra.Command, below bool) {
	if below {
		fmt.Fprintf(page, "\n## %s\n", c.CommandPath())
	}
	fmt.Fprintf(page, "\n%s.\n", c.Short)
	if c.Runnable() && !c.HasAvailableSubCommands() {
		fmt.Fprintf(page, "\n```text\n%s\n```\n", c.UseLine())
	}
	if c.Long != "" {
		fmt.Fprintf(page, "\n```text\n%s\n```\n", c.Long)
	}
	if c.Example != "" && !c.HasAvailableSubCommands() {
		fmt.Fprintf(page, "\nFor example:\n\n```sh\n%s\n```\n", c.Example)
	}
	escape := strings.NewReplacer("|", "\\|", "<", "&lt;", "\n", " ").Replace
	rows := 0
	visible(c, func(flag *pflag.Flag) {
		if rows == 0 {
			page.WriteString("\n| flag | value | default | |\n|---|---|---|---|\n")
		}
		rows++
		name := "`--" + flag.Name + "`"
		if flag.Shorthand != "" {
			name += ", `-" + flag.Shorthand + "`"
		}
		value := "`" + flag.DefValue + "`"
		if flag.DefValue == "" || flag.DefValue == "[]" {
			value = ""
		}
		fmt.Fprintf(page, "| %s | %s | %s | %s |\n", name, flag.Value.Type(), escape(value), escape(flag.Usage))
	})
}
