//! The master of each slot, as far as the client knows.

use std::sync::Arc;

use redis::ConnectionInfo;

use super::node::{Common, Node};
use super::slots::{COUNT, Range};

/// All known nodes, and the master of each slot.
pub(super) struct SlotMap {
    nodes: Vec<Arc<Node>>,
    /// Indexed by slot.
    masters: Vec<Option<Arc<Node>>>,
}

impl SlotMap {
    /// A map of which only the nodes are known.
    pub(super) fn new(nodes: Vec<Arc<Node>>) -> Self {
        Self { nodes, masters: vec![None; COUNT] }
    }

    pub(super) fn nodes(&self) -> &[Arc<Node>] {
        &self.nodes
    }

    pub(super) fn master_of(&self, slot: u16) -> Option<&Arc<Node>> {
        self.masters.get(usize::from(slot))?.as_ref()
    }

    /// All masters, in the order of their addresses.
    pub(super) fn masters(&self) -> Vec<Arc<Node>> {
        let mut masters: Vec<_> = self.masters.iter().flatten().collect();
        masters.dedup_by(|a, b| Arc::ptr_eq(a, b));
        masters.sort_by(|a, b| a.address.cmp(&b.address));
        masters.dedup_by(|a, b| Arc::ptr_eq(a, b));
        masters.into_iter().cloned().collect()
    }

    /// The node at this address. An unknown one is added.
    pub(super) fn node_at(&mut self, info: &ConnectionInfo, common: &Common) -> Arc<Node> {
        let address = info.addr().to_string();
        if let Some(node) = self.nodes.iter().find(|node| node.address == address) {
            return node.clone();
        }
        let node = Arc::new(Node::new(info, common));
        self.nodes.push(node.clone());
        node
    }

    /// Notes that a slot has migrated to `node`. Returns whether it was elsewhere.
    pub(super) fn move_slot(&mut self, slot: u16, node: Arc<Node>) -> bool {
        let Some(master) = self.masters.get_mut(usize::from(slot)) else { return false };
        let is_known = master.as_ref().is_some_and(|former| Arc::ptr_eq(former, &node));
        *master = Some(node);
        !is_known
    }

    /// Takes over the slots that the nodes report. Returns whether a slot has another master now.
    pub(super) fn assign(&mut self, ranges: &[Range], common: &Common) -> bool {
        let mut masters = vec![None; COUNT];
        for Range { first, last, host, port } in ranges {
            let node = self.node_at(&common.at(host, *port), common);
            if let Some(slots) = masters.get_mut(usize::from(*first)..=usize::from(*last)) {
                slots.fill(Some(node));
            }
        }
        let before = std::mem::replace(&mut self.masters, masters);
        let which = |node: &Option<Arc<Node>>| node.as_ref().map(Arc::as_ptr);
        let is_changed = before.iter().map(which).ne(self.masters.iter().map(which));
        drop(before);
        // A command is on its way to it, or slots belong to it.
        let is_in_use = |node: &Arc<Node>| Arc::strong_count(node) > 1;
        self.nodes.retain(|node| node.is_named || is_in_use(node));
        is_changed
    }
}

#[cfg(test)]
mod tests {
    use redis::IntoConnectionInfo;
    use tokio::runtime::Handle;

    use super::*;
    use crate::store::ClientId;
    use crate::store::redis::Settings;
    use crate::store::redis::hints::HintReceiver;

    fn range(first: u16, last: u16, port: u16) -> Range {
        Range { first, last, host: "h".to_owned(), port }
    }

    #[tokio::test]
    async fn the_map_follows_the_reports() {
        let named = "redis://h:1".into_connection_info().unwrap();
        let hints = HintReceiver::without_channel(ClientId::random());
        let common = Common::new(named.clone(), Settings::default(), hints, Handle::current());
        let mut map = SlotMap::new(vec![Arc::new(Node::named(&named, &common, false))]);
        let known = |map: &SlotMap| {
            let mut known: Vec<_> = map.nodes().iter().map(|node| node.address.clone()).collect();
            known.sort();
            known.join(" ")
        };
        let master = |map: &SlotMap, slot| map.master_of(slot).map(|node| node.address.clone());
        assert_eq!(master(&map, 7), None);

        let two = [range(0, 9, 1), range(10, 16_383, 2)];
        assert!(map.assign(&two, &common));
        assert!(!map.assign(&two, &common));
        assert_eq!(master(&map, 9).unwrap(), "h:1");
        assert_eq!(master(&map, 10).unwrap(), "h:2");
        assert_eq!(master(&map, 16_384), None);
        let kept = map.master_of(10).unwrap().clone();

        // A slot has migrated, which the next report may not yet contain.
        let node = map.node_at(&common.at("h", 3), &common);
        map.move_slot(12, node);
        assert_eq!(master(&map, 12).unwrap(), "h:3");
        assert_eq!(known(&map), "h:1 h:2 h:3");
        assert!(map.assign(&two, &common), "the slot is back");
        assert_eq!(known(&map), "h:1 h:2");
        assert!(Arc::ptr_eq(&kept, map.master_of(10).unwrap()), "its connections are kept");

        let moved = [range(0, 19, 1), range(20, 16_383, 2)];
        assert!(map.assign(&moved, &common));
        // A node in use is kept, and so is one that the user named.
        assert!(map.assign(&[range(0, 16_383, 4)], &common));
        assert_eq!(known(&map), "h:1 h:2 h:4");
        drop(kept);
        assert!(map.assign(&[range(0, 9, 4)], &common));
        assert_eq!((known(&map), master(&map, 10)), ("h:1 h:4".to_owned(), None));
    }
}
