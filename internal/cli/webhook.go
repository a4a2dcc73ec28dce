package cli

import (
	"fmt"
	"strings"
	"time"

	"github.com/gavel-oj/gavel/client"
	"github.com/gavel-oj/gavel/gavelapi"
)

// WebhookCmd is `gavel webhook`.
type WebhookCmd struct {
	List       WebhookListCmd       `cmd:"" help:"List endpoints that are told of alarms."`
	Add        WebhookAddCmd        `cmd:"" help:"Add an endpoint, and print the secret that its messages are signed with."`
	Rotate     WebhookRotateCmd     `cmd:"" help:"Give an endpoint a new secret, and print it; the old one signs beside it for a while."`
	Remove     WebhookRemoveCmd     `cmd:"" help:"Remove an endpoint, and what was to be sent to it."`
	Test       WebhookTestCmd       `cmd:"" help:"Send an endpoint a message that says nothing."`
	Deliveries WebhookDeliveriesCmd `cmd:"" help:"List what was sent to an endpoint, newest first."`
	Redeliver  WebhookRedeliverCmd  `cmd:"" help:"Send a message again that was delivered or given up."`
}

// webhookName is the argument of the commands about one endpoint.
type webhookName struct {
	Name string `arg:"" help:"Name of the endpoint."`
}

// WebhookListCmd is `gavel webhook list`.
type WebhookListCmd struct{}

// Run implements kong's command.
func (cmd *WebhookListCmd) Run(app *App) error {
	return withArbiter(app, func(c *client.Client) error {
		list, err := c.WebhookList(app.Ctx)
		if err != nil {
			return err
		}
		return app.printWebhooks(list.Webhooks, list)
	})
}

func (a *App) printWebhooks(list []gavelapi.Webhook, whole any) error {
	type W = gavelapi.Webhook
	return printItems(a, list, whole, func(w W) string { return w.Name }, []column[W]{
		{name: "WEBHOOK", flex: 12, cell: func(w W) cell { return text(w.Name) }},
		{name: "URL", flex: 20, cell: func(w W) cell { return text(w.URL) }},
		{name: "KINDS", flex: 12, cell: func(w W) cell {
			if len(w.Kinds) == 0 {
				return text("all")
			}
			return text(strings.Join(w.Kinds, ","))
		}},
		{name: "WAITING", right: true, cell: func(w W) cell { return number(w.Waiting) }},
		{name: "FAILED", right: true, cell: func(w W) cell { return number(w.Failed) }},
		{name: "OLD SECRET UNTIL (UTC)", wide: true, cell: func(w W) cell { return moment(w.OldSecretUntil) }},
	})
}

// WebhookAddCmd is `gavel webhook add`.
type WebhookAddCmd struct {
	webhookName
	URL    string   `arg:"" name:"url" help:"Its address, http or https."`
	Kind   []string `placeholder:"KIND,…" help:"Only these kinds of alarms."`
	Reason string   `placeholder:"TEXT" help:"Why; kept in the audit trail."`
}

// Run implements kong's command.
func (cmd *WebhookAddCmd) Run(app *App) error {
	return withArbiter(app, func(c *client.Client) error {
		w, err := c.WebhookAdd(app.Ctx, gavelapi.NewWebhook{Name: cmd.Name, URL: cmd.URL, Kinds: cmd.Kind, Reason: cmd.Reason})
		if err != nil {
			return err
		}
		if app.machine() {
			return app.printWebhooks([]gavelapi.Webhook{*w}, w)
		}
		app.note("keep the secret: it is shown once")
		return app.sheet("webhook "+w.Name, [][2]string{{"url", w.URL}, {"secret", w.Secret}})
	})
}

// WebhookRotateCmd is `gavel webhook rotate`.
type WebhookRotateCmd struct {
	webhookName
	Keep   time.Duration `default:"24h" placeholder:"DURATION" help:"How long the old secret goes on signing beside the new one, at most 720h; 0s ends it, and all before it, at once (default: ${default})."`
	Reason string        `placeholder:"TEXT" help:"Why; kept in the audit trail."`
}

// Run implements kong's command.
func (cmd *WebhookRotateCmd) Run(app *App) error {
	if err := between("--keep", cmd.Keep, 0, 720*time.Hour); err != nil {
		return err
	}
	if cmd.Keep%time.Second != 0 {
		return usage("give whole seconds, e.g. 24h", "--keep counts whole seconds, and %s are none", cmd.Keep)
	}
	keep := int64(cmd.Keep.Seconds())
	return withArbiter(app, func(c *client.Client) error {
		w, err := c.WebhookRotate(app.Ctx, cmd.Name, gavelapi.WebhookRotation{KeepSeconds: &keep, Reason: cmd.Reason})
		if err != nil {
			return err
		}
		if app.machine() {
			return app.printWebhooks([]gavelapi.Webhook{*w}, w)
		}
		app.note("keep the secret: it is shown once")
		rows := [][2]string{{"url", w.URL}, {"secret", w.Secret}, {"old", "signs no more"}}
		if w.OldSecretUntil != nil {
			rows[2][1] = "signs until " + instant(*w.OldSecretUntil) + " UTC"
		}
		return app.sheet("webhook "+w.Name, rows)
	})
}

// WebhookRemoveCmd is `gavel webhook remove`.
type WebhookRemoveCmd struct {
	webhookName
	Reason string `placeholder:"TEXT" help:"Why; kept in the audit trail."`
}

// Run implements kong's command.
func (cmd *WebhookRemoveCmd) Run(app *App) error {
	return withArbiter(app, func(c *client.Client) error {
		if err := c.WebhookRemove(app.Ctx, cmd.Name, cmd.Reason); err != nil {
			return err
		}
		app.note("webhook %s is removed", cmd.Name)
		return nil
	})
}

// WebhookTestCmd is `gavel webhook test`.
type WebhookTestCmd struct {
	webhookName
	Reason string `placeholder:"TEXT" help:"Why; kept in the audit trail."`
}

// Run implements kong's command.
func (cmd *WebhookTestCmd) Run(app *App) error {
	return withArbiter(app, func(c *client.Client) error {
		d, err := c.WebhookTest(app.Ctx, cmd.Name, cmd.Reason)
		if err != nil {
			return err
		}
		app.note("on its way; %s webhook deliveries %s says what becomes of it", app.program(), cmd.Name)
		return app.printDeliveries([]gavelapi.Delivery{*d}, d)
	})
}

// WebhookDeliveriesCmd is `gavel webhook deliveries`.
type WebhookDeliveriesCmd struct {
	webhookName
	pageLimit
}

// Run implements kong's command.
func (cmd *WebhookDeliveriesCmd) Run(app *App) error {
	return withArbiter(app, func(c *client.Client) (err error) {
		var list gavelapi.DeliveryList
		list.Deliveries, list.Next, err = pages(app, cmd.pageLimit, func(cursor string, limit int) ([]gavelapi.Delivery, string, error) {
			page, err := c.WebhookDeliveries(app.Ctx, cmd.Name, cursor, limit)
			if err != nil {
				return nil, "", err
			}
			return page.Deliveries, page.Next, nil
		})
		if err != nil {
			return err
		}
		return app.printDeliveries(list.Deliveries, list)
	})
}

// moment is a cell with a time that may be absent.
func moment(t *time.Time) cell {
	if t == nil {
		return shade("-", dim)
	}
	return text(instant(*t))
}

func (a *App) printDeliveries(list []gavelapi.Delivery, whole any) error {
	type D = gavelapi.Delivery
	return printItems(a, list, whole, func(d D) string { return fmt.Sprint(d.ID) }, []column[D]{
		{name: "DELIVERY", right: true, cell: func(d D) cell { return number(d.ID) }},
		{name: "EVENT", cell: func(d D) cell { return text(d.Event) }},
		{name: "ALARM", right: true, cell: func(d D) cell { return number(d.AlarmID) }},
		{name: "STATE", cell: func(d D) cell {
			if d.State == "failed" {
				return shade(d.State, red)
			}
			return text(d.State)
		}},
		{name: "ATTEMPTS", right: true, cell: func(d D) cell { return number(int64(d.Attempts)) }},
		{name: "NEXT (UTC)", cell: func(d D) cell { return moment(d.NextAt) }},
		{name: "ERROR", flex: 12, cell: func(d D) cell { return text(orDash(d.Error)) }},
	})
}

// WebhookRedeliverCmd is `gavel webhook redeliver`.
type WebhookRedeliverCmd struct {
	ID     int64  `arg:"" help:"Number of the delivery."`
	Reason string `placeholder:"TEXT" help:"Why; kept in the audit trail."`
}

// Run implements kong's command.
func (cmd *WebhookRedeliverCmd) Run(app *App) error {
	return withArbiter(app, func(c *client.Client) error {
		if err := c.WebhookRedeliver(app.Ctx, cmd.ID, cmd.Reason); err != nil {
			return err
		}
		app.note("delivery %d is sent again", cmd.ID)
		return nil
	})
}
