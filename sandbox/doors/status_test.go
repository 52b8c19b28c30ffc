package doors

import (
	"errors"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/streaming/pkg/httpstream"
)

// statusOf is the status in an error of a connection that did not come about.
func statusOf(err error) error {
	if upgrade, ok := errors.AsType[*httpstream.UpgradeFailureError](err); ok {
		err = upgrade.Cause
	}
	if status, ok := errors.AsType[*apierrors.StatusError](err); ok {
		return status
	}
	return err
}
