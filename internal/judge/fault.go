package judge

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"syscall"
)

func faultf(blame Blame, err error, format string, args ...any) *Fault {
	return &Fault{Blame: blame, Message: fmt.Sprintf(format, args...), Err: err}
}

// asFault makes err one of the two kinds that Judge returns: the cause of
// ctx's end, or a *Fault, by default on the host.
func asFault(ctx context.Context, err error, doing string) error {
	if err == nil {
		return nil
	}
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	if errors.Is(err, errGaveWay) {
		return errGaveWay
	}
	if f, ok := errors.AsType[*Fault](err); ok {
		return f
	}
	if errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) {
		return faultf(BlameHost, err, "%s: no space left in the scratch directory", doing)
	}
	return faultf(BlameHost, err, "%s", doing)
}

// packageFault is for a file of the package that can not be used.
func packageFault(err error, rel string) *Fault {
	if errors.Is(err, fs.ErrNotExist) {
		return faultf(BlamePackage, err, "file %q is missing from the package", rel)
	}
	return faultf(BlamePackage, err, "file %q of the package can not be read", rel)
}

// onTest says in a fault which test it is about.
func onTest(err error, name string) error {
	var f *Fault
	if !errors.As(err, &f) {
		return err
	}
	return &Fault{Blame: f.Blame, Message: "test " + name + ": " + f.Message, Err: f.Err}
}
