//! Shows the background work of the process that owns a store.

use terrace_tools::inspect::{Answer, EventRequest};

use crate::arguments::Events;
use crate::failure::Result;
use crate::output::{print, print_json_line};
use crate::store;

pub fn run(arguments: &Events) -> Result<()> {
    let wanted = EventRequest {
        follow: arguments.follow,
        ..EventRequest::default()
    };
    for answer in store::events(&arguments.store, wanted)? {
        let Answer::Event(event) = answer? else {
            continue;
        };
        // A line at a time: a follower wants to see each event now.
        if arguments.json {
            print_json_line(&event)?;
        } else {
            print(format!(
                "{} {} {}\n",
                event.number, event.thread, event.event
            ))?;
        }
    }
    Ok(())
}
