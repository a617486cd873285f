//! Names of what a request has touched and called: what is of another app than the request's is told with its app, as a call
//! names it.

use styx_protocol::catalog::Catalog;
use styx_protocol::ids::OperatorId;
use styx_protocol::interface::SEPARATOR;

#[derive(Clone, Copy)]
pub(super) struct Names<'a> {
    catalog: &'a Catalog,
    /// The operator that the request calls.
    root: OperatorId,
}

impl<'a> Names<'a> {
    pub fn of(catalog: &'a Catalog, root: OperatorId) -> Self {
        Names { catalog, root }
    }

    pub fn operator(&self, id: OperatorId) -> String {
        let Some(operator) = self.catalog.operator(id) else { return "?".into() };
        let own = self.catalog.operator(self.root).is_none_or(|root| root.app == operator.app);
        if own { operator.name.to_string() } else { format!("{}{SEPARATOR}{}", operator.app, operator.name) }
    }

    pub fn function(&self, operator: OperatorId, function: u16) -> String {
        let operator = self.catalog.operator(operator);
        let function = operator.and_then(|operator| operator.functions().nth(function.into()));
        function.map_or_else(|| "?".into(), |function| function.name.to_string())
    }
}
