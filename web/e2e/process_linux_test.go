package e2e

import (
	"os/exec"
	"syscall"
)

// dies has a command end with this process, however that ends.
func dies(command *exec.Cmd) {
	command.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}
