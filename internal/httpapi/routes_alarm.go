package httpapi

import (
	"context"
	"net/http"
	"net/url"
	"strconv"

	"github.com/danielgtaylor/huma/v2"

	"github.com/gavel-oj/gavel/gavelapi"
	"github.com/gavel-oj/gavel/internal/auth"
)

type alarmsInput struct {
	PageInput
	Open bool   `query:"open" doc:"only those that have not ended"`
	Kind string `query:"kind" maxLength:"32" doc:"only of this kind, e.g. judge_down"`
}

func (s *server) alarmRoutes() {
	tags := []string{"alarms"}
	register(s, admins, huma.Operation{
		OperationID: "list-alarms", Method: http.MethodGet, Path: "/v1/alarms", Tags: tags,
		Summary: "List alarms, newest first",
	}, func(ctx context.Context, _ auth.Principal, in *alarmsInput) (*pageOutput[gavelapi.AlarmList], error) {
		list, err := s.Service.Alarms(ctx, in.Open, in.Kind, in.Cursor, in.Limit)
		link := nextLink("/v1/alarms", url.Values{"open": {strconv.FormatBool(in.Open)}, "kind": {in.Kind}}, list.Next, in.Limit)
		return &pageOutput[gavelapi.AlarmList]{Link: link, Body: list}, err
	})
	register(s, admins, huma.Operation{
		OperationID: "get-alarm", Method: http.MethodGet, Path: "/v1/alarms/{id}", Tags: tags,
		Summary: "Read an alarm with its evidence", Errors: []int{http.StatusNotFound},
	}, func(ctx context.Context, _ auth.Principal, in *idInput) (*out[gavelapi.Alarm], error) {
		al, err := s.Service.Alarm(ctx, in.ID)
		return &out[gavelapi.Alarm]{Body: al}, err
	})
}
