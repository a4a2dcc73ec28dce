package apitest

import (
	"context"
	"slices"
	"time"

	"github.com/gavel-oj/gavel/gavelapi"
	"github.com/gavel-oj/gavel/internal/apperr"
	"github.com/gavel-oj/gavel/internal/auth"
)

// Webhooks implements httpapi.Service.
func (f *Fake) Webhooks(ctx context.Context) (gavelapi.WebhookList, error) {
	if err := f.enter(ctx, "Webhooks"); err != nil {
		return gavelapi.WebhookList{}, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	return gavelapi.WebhookList{Webhooks: append([]gavelapi.Webhook{}, f.hooks...)}, nil
}

// AddWebhook implements httpapi.Service.
func (f *Fake) AddWebhook(ctx context.Context, _ auth.Principal, n gavelapi.NewWebhook) (gavelapi.Webhook, error) {
	if err := f.enter(ctx, "AddWebhook"); err != nil {
		return gavelapi.Webhook{}, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	w := gavelapi.Webhook{Name: n.Name, URL: n.URL, Kinds: append([]string{}, n.Kinds...), CreatedAt: Epoch, Waiting: 1}
	f.hooks = append(f.hooks, w)
	w.Secret = "whsec_bWFkZSB1cA=="
	return w, nil
}

// RotateWebhook implements httpapi.Service.
func (f *Fake) RotateWebhook(ctx context.Context, _ auth.Principal, name string, r gavelapi.WebhookRotation) (gavelapi.Webhook, error) {
	if err := f.enter(ctx, "RotateWebhook"); err != nil {
		return gavelapi.Webhook{}, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	i, err := f.hook(name)
	if err != nil {
		return gavelapi.Webhook{}, err
	}
	keep := 24 * time.Hour
	if r.KeepSeconds != nil {
		keep = time.Duration(*r.KeepSeconds) * time.Second
	}
	f.hooks[i].OldSecretUntil = nil
	if keep > 0 {
		until := Epoch.Add(keep)
		f.hooks[i].OldSecretUntil = &until
	}
	w := f.hooks[i]
	w.Secret = "whsec_bWFkZSBhbmV3"
	return w, nil
}

// hook finds an endpoint. Needs f.mu.
func (f *Fake) hook(name string) (int, error) {
	i := slices.IndexFunc(f.hooks, func(w gavelapi.Webhook) bool { return w.Name == name })
	if i < 0 {
		return i, apperr.New(apperr.NotFound, "gavel webhook list shows all", "there is no webhook %q", name)
	}
	return i, nil
}

// RemoveWebhook implements httpapi.Service.
func (f *Fake) RemoveWebhook(ctx context.Context, _ auth.Principal, name, _ string) error {
	if err := f.enter(ctx, "RemoveWebhook"); err != nil {
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	i, err := f.hook(name)
	if err == nil {
		f.hooks = slices.Delete(f.hooks, i, i+1)
	}
	return err
}

// TestWebhook implements httpapi.Service.
func (f *Fake) TestWebhook(ctx context.Context, _ auth.Principal, name, _ string) (gavelapi.Delivery, error) {
	if err := f.enter(ctx, "TestWebhook"); err != nil {
		return gavelapi.Delivery{}, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	_, err := f.hook(name)
	return gavelapi.Delivery{ID: 7, MessageID: "msg_7", Event: "test", State: "waiting", CreatedAt: Epoch}, err
}

// Deliveries implements httpapi.Service.
func (f *Fake) Deliveries(ctx context.Context, name, cursor string, limit int) (gavelapi.DeliveryList, error) {
	if err := f.enter(ctx, "Deliveries"); err != nil {
		return gavelapi.DeliveryList{}, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if _, err := f.hook(name); err != nil {
		return gavelapi.DeliveryList{}, err
	}
	next := Epoch
	items, after, err := page([]gavelapi.Delivery{
		{ID: 7, MessageID: "msg_7", Event: "alarm.ended", AlarmID: 1, State: "waiting", Attempts: 2, Status: 502, Error: "it answered 502", CreatedAt: Epoch, NextAt: &next},
		{ID: 6, MessageID: "msg_6", Event: "alarm.started", AlarmID: 1, State: "delivered", Attempts: 1, Status: 200, CreatedAt: Epoch, FinishedAt: &next},
	}, cursor, limit)
	return gavelapi.DeliveryList{Deliveries: items, Next: after}, err
}

// Redeliver implements httpapi.Service.
func (f *Fake) Redeliver(ctx context.Context, _ auth.Principal, id int64, _ string) error {
	if err := f.enter(ctx, "Redeliver"); err != nil {
		return err
	}
	if id != 6 {
		return apperr.New(apperr.NotFound, "gavel webhook deliveries lists them", "there is no delivery %d to be repeated", id)
	}
	return nil
}
