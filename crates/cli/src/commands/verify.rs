use crate::arguments::Report;
use crate::failure::Result;
pub fn run(_arguments: &Report) -> Result<()> {
    Ok(())
}
